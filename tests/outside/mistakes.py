"""Mistaken files around ops with bodies: each must be refused with one error at its line, the one marked HERE."""

import re
import subprocess

T, S = "tensor<2xf32>", "tensor<f32>"


def function(lines, arguments="%p: tensor<i1>, %x: tensor<2xf32>, %t: tensor<3x2xf32>, %i: tensor<i32>", result="%x", kind=T):
    return f"func.func @f({arguments}) -> ({kind}) {{\n{lines}\n  func.return {result} : {kind}\n}}\n"


def repeat(head="repeat 3 (%a = %x : tensor<2xf32>)", body="%y = tcc.sin %a : tensor<2xf32>", end="tcc.yield %y : tensor<2xf32>",
           place="head"):
    mark = {place: "  // HERE"}
    return (f"  %r = tcc.{head} {{{mark.get('head', '')}\n    {body}{mark.get('body', '')}\n"
            f"    {end}{mark.get('end', '')}\n  }}")


def cond(head="cond %p (%a = %x : tensor<2xf32>) -> tensor<2xf32>", then="tcc.yield %a : tensor<2xf32>",
         other="tcc.yield %a : tensor<2xf32>", place="head", tail=""):
    mark = {place: "  // HERE"}
    return (f"  %r = tcc.{head} {{{mark.get('head', '')}\n    {then}{mark.get('then', '')}\n  }} else {{\n"
            f"    {other}{mark.get('other', '')}\n  }}{tail}")


def custom(head='custom "op" (%a = %x : tensor<2xf32>) -> tensor<2xf32>', body="tcc.yield %a : tensor<2xf32>", place="head",
           tail=""):
    mark = {place: "  // HERE"}
    return f"  %r = tcc.{head} {{{mark.get('head', '')}\n    {body}{mark.get('body', '')}\n  }}{tail}"


def nested(depth, opening, closing):
    """`depth` bodies in each other; which of them is refused is the program's choice."""
    lines = [f"  %r = tcc.{opening('x', 0)}"]
    lines += [f"  %y{n} = tcc.{opening(f'a{n - 1}', n)}" for n in range(1, depth)]
    lines += [f"  tcc.yield %a{depth - 1} : {T}\n  {closing(depth - 1)}"]
    lines += [f"  tcc.yield %y{n} : {T}\n  {closing(n - 1)}" for n in range(depth - 1, 0, -1)]
    return "\n".join(lines)


MISTAKES = {
    # repeat
    "zero turns": function(repeat("repeat 0 (%a = %x : tensor<2xf32>)")),
    "negative turns": function(repeat("repeat -3 (%a = %x : tensor<2xf32>)")),
    "huge count": function(repeat("repeat 9223372036854775807 (%a = %x : tensor<2xf32>)")),
    "count beyond 64 bits": function(repeat("repeat 92233720368547758070 (%a = %x : tensor<2xf32>)")),
    "count is a fraction": function(repeat("repeat 2.5 (%a = %x : tensor<2xf32>)")),
    "count is a value": function(repeat("repeat %i (%a = %x : tensor<2xf32>)")),
    "count is missing": function(repeat("repeat (%a = %x : tensor<2xf32>)")),
    "repeat yields another type": function(repeat(end="tcc.yield %y : tensor<3xf32>", place="end")),
    "repeat yields a sum": function(repeat(body="%y = tcc.reduce_sum %a axes [0] : tensor<2xf32> -> tensor<1xf32>",
                                           end="tcc.yield %y : tensor<1xf32>")),
    "repeat yields too much": function(repeat(end="tcc.yield %y, %y : tensor<2xf32>, tensor<2xf32>")),
    "repeat yields too little": function(repeat(end="tcc.yield")),
    "repeat without yield": function(repeat(end="")),
    "repeat ends with return": function(repeat(end="func.return %y : tensor<2xf32>")),
    "an op after the yield": function(repeat(end="tcc.yield %y : tensor<2xf32>\n    %z = tcc.sin %y : tensor<2xf32>")),
    "repeat of an empty body": function("  %r = tcc.repeat 3 (%a = %x : tensor<2xf32>) {  // HERE\n  }"),
    "repeat without a body": function("  %r = tcc.repeat 3 (%a = %x : tensor<2xf32>)  // HERE", ),
    "scanned of another size": function(repeat("repeat 4 (%a = %x : tensor<2xf32>) slices (%s = %t : tensor<3x2xf32>)")),
    "scanned scalar": function(repeat("repeat 4 (%a = %x : tensor<2xf32>) slices (%s = %i : tensor<i32>)")),
    "part of another type": function(repeat("repeat 3 (%a = %x : tensor<2xf32>) slices (%s = %t : tensor<3x2xf32>)",
                                            "%y = tcc.add %a, %s : tensor<3x2xf32>", place="body")),
    "slices without a value": function(repeat("repeat 3 (%a = %x : tensor<2xf32>) slices (%s : tensor<3x2xf32>)")),
    "uses before slices": function(repeat("repeat 3 (%a = %x : tensor<2xf32>) uses (%b = %x : tensor<2xf32>) "
                                          "slices (%s = %t : tensor<3x2xf32>)")),
    "start of another type": function(repeat("repeat 3 (%a = %x : tensor<3xf32>)")),
    "unknown start": function(repeat("repeat 3 (%a = %unknown : tensor<2xf32>)")),
    "a name twice in the head": function(repeat("repeat 3 (%a = %x : tensor<2xf32>) uses (%a = %x : tensor<2xf32>)")),
    "an argument named as one outside": function(repeat("repeat 3 (%x = %x : tensor<2xf32>)")),
    "a name twice in a body": function(repeat(body="%y = tcc.sin %a : tensor<2xf32>\n    %y = tcc.cos %a : tensor<2xf32>", place="body")),
    "two results of one": function(repeat().replace("%r =", "%r:2 =")),
    "a value of outside": function(repeat(body="%y = tcc.add %a, %x : tensor<2xf32>", place="body")),
    "a value of a body outside": function(repeat(place="") + "\n  %z = tcc.sin %y : tensor<2xf32>  // HERE"),
    "the result in its own body": function(repeat(body="%y = tcc.sin %r : tensor<2xf32>", place="body")),
    "print in a body": function(repeat(body='%y = tcc.sin %a : tensor<2xf32>\n    tcc.print "y", %y : tensor<2xf32>', place="body")),
    "item in a body": function(repeat("repeat 3 (%a = %v : tensor<f32>)", "%y = tcc.item %a : tensor<f32>",
                                      "tcc.yield %y : tensor<f32>", "body").replace(
                                          "  %r =", "  %v = tcc.constant dense<1.0> : tensor<f32>\n  %r =", 1)),
    "a function in a body": function(repeat(body="func.func @g() {\n    func.return\n    }\n    %y = tcc.sin %a : tensor<2xf32>",
                                            place="none").replace("@g() {", "@g() {  // HERE")),
    "gradient of a value of outside": function(repeat(
        "repeat 3 (%a = %x : tensor<2xf32>) uses (%l = %s : tensor<f32>)",
        "%y = tcc.gradient %l wrt %x : tensor<f32>, tensor<2xf32>", place="body").replace(
            "  %r =", "  %s = tcc.constant dense<1.0> : tensor<f32>\n  %r =", 1)),
    "gradient inside of a vector": function(repeat(body="%y = tcc.gradient %a wrt %a : tensor<2xf32>, tensor<2xf32>", place="body")),
    "gradient through many turns": function(
        repeat("repeat 33 (%a = %x : tensor<2xf32>)") + """
  %s = tcc.reduce_sum %r axes [0] : tensor<2xf32> -> tensor<1xf32>
  %l = tcc.reshape %s : tensor<1xf32> -> tensor<f32>
  %d = tcc.gradient %l wrt %x : tensor<f32>, tensor<2xf32>""", result="%d"),
    # cond
    "predicate of two": function(cond("cond %q (%a = %x : tensor<2xf32>) -> tensor<2xf32>"),
                                 "%q: tensor<2xi1>, %x: tensor<2xf32>"),
    "predicate of numbers": function(cond("cond %q (%a = %x : tensor<2xf32>) -> tensor<2xf32>"),
                                     "%q: tensor<i32>, %x: tensor<2xf32>"),
    "no predicate": function(cond("cond (%a = %x : tensor<2xf32>) -> tensor<2xf32>")),
    "no else": function("  %r = tcc.cond %p (%a = %x : tensor<2xf32>) -> tensor<2xf32> {\n    tcc.yield %a : tensor<2xf32>\n  }"
                        "\n  %z = tcc.sin %x : tensor<2xf32>  // HERE"),
    "two else": function(cond(tail=" else {  // HERE\n    tcc.yield %a : tensor<2xf32>\n  }", place="")),
    "bodies of two types": function(cond(other="%z = tcc.constant dense<0.0> : tensor<3xf32>\n    tcc.yield %z : tensor<3xf32>")),
    "first body yields nothing": function(cond(then="tcc.yield")),
    "second body yields twice": function(cond(other="tcc.yield %a, %a : tensor<2xf32>, tensor<2xf32>")),
    "results of another type": function(cond("cond %p (%a = %x : tensor<2xf32>) -> tensor<2xbf16>")),
    "a value of the first body in the second": function(cond(then="%z = tcc.sin %a : tensor<2xf32>\n    tcc.yield %z : tensor<2xf32>",
                                                             other="tcc.yield %z : tensor<2xf32>", place="other")),
    "cond reads outside": function(cond(other="tcc.yield %x : tensor<2xf32>", place="other")),
    "the predicate in a body": function(cond(then="%z = tcc.not %p : tensor<i1>\n    tcc.yield %a : tensor<2xf32>", place="then").replace(
        "%z = tcc.not %p : tensor<i1>", "%z = tcc.not %p : tensor<i1>  // HERE").replace("tcc.yield %a : tensor<2xf32>  // HERE", "tcc.yield %a : tensor<2xf32>")),
    "results without a type": function(cond("cond %p (%a = %x : tensor<2xf32>)")),
    "print in a cond": function(cond(then='tcc.print "a", %a : tensor<2xf32>  // HERE\n    tcc.yield %a : tensor<2xf32>', place="")),
    # custom
    "custom without a name": function(custom("custom (%a = %x : tensor<2xf32>) -> tensor<2xf32>")),
    "custom with a bad name": function(custom('custom "1 op" (%a = %x : tensor<2xf32>) -> tensor<2xf32>')),
    "custom without results": function('  tcc.custom "op" (%a = %x : tensor<2xf32>) {  // HERE\n    tcc.yield\n  }'),
    "custom without a body": function('  %r = tcc.custom "op" (%x : tensor<2xf32>) -> tensor<2xf32>  // HERE'),
    "custom yields another type": function(custom(body="%z = tcc.cast %a : tensor<2xf32> -> tensor<2xbf16>\n    tcc.yield %z : tensor<2xbf16>")),
    "custom reads outside": function(custom(body="tcc.yield %x : tensor<2xf32>", place="body")),
    "gradient of too few arguments": function(custom(tail=" gradient (%a: tensor<2xf32>) {\n    tcc.yield %a : tensor<2xf32>\n  }")),
    "gradient yields too much": function(custom(tail=" gradient (%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>) {\n"
                                                "    tcc.yield %a, %b : tensor<2xf32>, tensor<2xf32>\n  }")),
    "gradient without arguments": function(custom(tail=" gradient {  // HERE\n    tcc.yield %a : tensor<2xf32>\n  }", place="")),
    "custom code without leave": function(custom('custom "op" (%a = %x : tensor<2xf32>) -> tensor<2xf32> attributes '
                                                 '{library = "/nowhere.so", symbol = "f"}')),
    "half of custom code": function(custom('custom "op" (%a = %x : tensor<2xf32>) -> tensor<2xf32> attributes {symbol = "f"}')),
    "a function of another process": function(custom('custom "op" (%a = %x : tensor<2xf32>) -> tensor<2xf32> attributes '
                                                     '{host_function = 7 : i64}')),
    "item in a custom": function(custom('custom "op" (%a = %i : tensor<i32>) -> tensor<i32>',
                                        "%z = tcc.item %a : tensor<i32>\n    tcc.yield %z : tensor<i32>", "").replace(
                                            "%z = tcc.item %a : tensor<i32>", "%z = tcc.item %a : tensor<i32>  // HERE")),
    # structure
    "a file that ends in a body": "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                                  "  %r = tcc.repeat 3 (%a = %x : tensor<2xf32>) {\n    %y = tcc.sin %a : tensor<2xf32>\n",
    "yield in the function": function("  tcc.yield %x : tensor<2xf32>  // HERE"),
    "1000 loops in each other": function(nested(1000, lambda x, n: f"repeat 1 (%a{n} = %{x} : {T}) {{", lambda n: "}"), result="%r"),
    "1000 conds in each other": function(nested(
        1000, lambda x, n: f"cond %{'p' if n == 0 else f'q{n - 1}'} (%a{n} = %{x} : {T}, %q{n} = %{'p' if n == 0 else f'q{n - 1}'} : tensor<i1>) -> {T} {{",
        lambda n: f"}} else {{\n  tcc.yield %a{n} : {T}\n  }}"), result="%r"),
    "1000 customs in each other": function(nested(1000, lambda x, n: f'custom "op" (%a{n} = %{x} : {T}) -> {T} {{', lambda n: "}"),
                                           result="%r"),
    "100000 loops in each other": function(nested(100000, lambda x, n: f"repeat 1 (%a{n} = %{x} : {T}) {{", lambda n: "}"), result="%r"),
}

NOWHERE = {"custom code without leave"}  # said of the file, with the op's name
SEVERAL = {"no else", "a function in a body"}  # what comes after the mistake is refused as well
MAY_RUN = {"1000 loops in each other", "1000 conds in each other", "1000 customs in each other"}


def check(tcc, folder, name, text):
    """None, or what is wrong about how the program refuses `text`."""
    file = folder / "mistaken.graph"
    file.write_text(text)
    try:
        done = subprocess.run([tcc, str(file), "--run"], capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "no end after 300 s"
    errors = re.findall(r"^(?:.*?:(\d+):\d+: |tcc: )?error: (.*)$", done.stderr, re.M)
    if done.returncode == 0 and name in MAY_RUN:
        return None
    if done.returncode not in (1, 2):
        return f"status {done.returncode}: {done.stderr.strip()[:300]}"
    if len(errors) != 1 and not (errors and name in SEVERAL):
        return f"{len(errors)} errors: {[message for _, message in errors]}"
    if name in NOWHERE:
        return None
    lines = [str(number) for number, line in enumerate(text.split("\n"), 1) if "// HERE" in line]
    if lines and errors[0][0] not in lines:
        return f"error at line {errors[0][0] or '?'}, not {lines[0]}: {errors[0][1]}"
    return None


def check_all(tcc, folder):
    """Findings of all files."""
    found = {name: check(tcc, folder, name, text) for name, text in MISTAKES.items()}
    return [f"mistake '{name}': {wrong}" for name, wrong in found.items() if wrong]
