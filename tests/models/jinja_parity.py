#!/usr/bin/env python3
"""Jinja templates of models/jinja beside Python's jinja2.

  jinja_parity.py --program build/tests/render_template [--count 400] [--seed 1] [--templates FOLDER]

Renders hand-written templates of the usual forms (ChatML, Llama, Mistral, Gemma, Phi), templates drawn at random, and
those of a folder, each for several conversations. Exit status 77 where jinja2 is missing, 1 where a text differs, or
where one side alone refuses a template; a template that uses what models/jinja does not know must be refused.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import warnings

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful assistant<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""
LLAMA3 = """{% set loop_messages = messages %}
{% for message in loop_messages %}
  {%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}
  {%- if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}
  {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{#- roles must alternate -#}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}"""
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}"""
THINKING = """{%- set found = namespace(question=-1, open=true) -%}
{%- for message in messages[::-1] %}
    {%- if found.open and message.role == 'user' and not (message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set found.question = messages | length - 1 - loop.index0 %}
        {%- set found.open = false %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set said = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set thoughts = '' %}
        {%- if message.thoughts is defined and message.thoughts is not none %}
            {%- set thoughts = message.thoughts %}
        {%- elif '</think>' in said %}
            {%- set thoughts = said.split('</think>', 1)[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set said = said.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' }}
        {%- if loop.index0 > found.question and (loop.last or thoughts) %}
            {{- '<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- said + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + said + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if thinks is defined and thinks is false %}{{- '<think></think>' }}{% endif %}
{%- endif %}"""
PHI = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""
MACRO = """{%- macro block(message, first=false) -%}
  {%- if first %}{{ bos_token }}{% endif -%}
  <{{ message.role|upper }}>{{ message.get('content', '') }}</{{ message.role|upper }}>
{%- endmacro -%}
{%- for role, group in {'user': 1, 'assistant': 2}.items() %}{{ role ~ group }};{% endfor %}
{% for m in messages if m.role != 'system' -%}
  {{ block(m, first=loop.first) }}{% if not loop.last %}
, {% endif %}
{%- else %}nothing{% endfor %}
{% set joined %}
  {{- messages | map(attribute='role') | join(',') }}
{% endset %}[{{ joined | trim }}] {{ (messages | selectattr('role', 'equalto', 'user') | list) | length }} {{ messages | tojson }}"""
FORMS = [CHATML, LLAMA3, MISTRAL, GEMMA, THINKING, PHI, MACRO]
#: What models/jinja must refuse, whatever jinja2 says.
UNKNOWN = ["{% include 'x' %}", "{% block a %}{% endblock %}", "{{ 1.5 }}", "{{ [1] }}", "{{ x|wordcount }}", "{{ lipsum() }}",
           "{{ messages.append(1) }}", "{% if a %}", "{{ a", "{% endfor %}", "{{ 'a' }", "{# x", "{{ 1 2 }}", "{{ a | }}",
           "{% for x in range(9999999) %}{% endfor %}", "{{ " + "(" * 300 + "1" + ")" * 300 + " }}", "{{ 1 // 0 }}",
           "{% set a.b = 1 %}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{% if x %}{% endfor %}",
           "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(9) %}{% endfor %}{% endfor %}{% endfor %}"]
METHODS = ["strip()", "upper()", "split()", "startswith('a')", "lstrip('a')", "split(' ')[0]", "replace('a', 'bb')", "endswith('b')"]
CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " Hello there. \n"}],
    [{"role": "system", "content": "Be  brief."}, {"role": "user", "content": "caf\u00e9 \U0001f600 <b>"},
     {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"}, {"role": "user", "content": "\n\nand?\n"},
     {"role": "assistant", "content": ""}],
    [{"role": "user", "content": "'quoted' \"twice\" {{ x }} {% y %}"}],
    [{"role": "user", "content": "1"}, {"role": "user", "content": "2", "extra": None}],
]


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    made.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    made.globals["raise_exception"] = raise_exception
    return made


class Drawn:
    """Templates drawn at random from the language that models/jinja knows; each may still fail on both sides."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def blank(self):
        return self.pick("", "", "", "", " ", "\n", "\n\n", "  \n  ", "\t", " x ", "a\n b", "\n  y", "}", "{ ", "%")

    def tag(self, inner, kind="%"):
        left, right = self.pick("", "", "", "-", "+" if kind == "%" else ""), self.pick("", "", "", "-", "+" if kind == "%" else "")
        close = {"%": "%}", "{": "}}", "#": "#}"}[kind]
        return "{" + kind + left + self.pick(" ", " ", "", "\n ") + inner + " " + right + close

    def expression(self, depth=0):
        if depth > 3 or self.random.random() < 0.3:
            return self.pick("1", "2", "-3", "7", "0", "'a b'", '"x\\n"', "''", "true", "false", "none", "bos_token", "missing",
                             "messages[0].content", "messages[-1]['role']", "messages|length", "name", "'Abc'", "loop.index",
                             "loop.first", "message.content", "message['role']", "messages[9]", "[1, 2, 'z']", "add_generation_prompt")
        e = lambda: self.expression(depth + 1)
        form = self.random.randrange(14)
        if form == 0:
            return f"{e()} {self.pick('+', '-', '*', '//', '%', '~', '~', '+')} {e()}"
        if form == 1:
            return f"{e()} {self.pick('==', '!=', '<', '>', '<=', '>=')} {e()}"
        if form == 2:
            return f"{e()} {self.pick('and', 'or')} {e()}"
        if form == 3:
            return f"not {e()}"
        if form == 4:
            return f"({e()})"
        if form == 5:
            return f"{e()} if {e()} else {e()}"
        if form == 6:
            return f"{e()} | {self.pick('trim', 'length', 'upper', 'lower', 'string', 'first', 'last', 'default(5)', 'list', 'int', 'capitalize')}"
        if form == 7:
            return f"{e()} is {self.pick('', 'not ')}{self.pick('defined', 'none', 'string', 'mapping', 'number', 'iterable', 'true', 'false', 'boolean', 'integer', 'odd')}"
        if form == 8:
            return f"{e()} {self.pick('in', 'not in')} {e()}"
        if form == 9:
            return f"({e()}).{self.pick(*METHODS)}"
        if form == 10:
            return f"({e()})[{self.pick('0', '-1', '1:', ':-1', '::-1', '1:2', '::2', '5')}]"
        if form == 11:
            return f"messages | map(attribute={self.pick(repr('role'), repr('content'))}) | join({self.pick('', repr(', '))})"
        if form == 12:
            return f"{e()} | replace('a', {self.pick(repr('b'), repr(''))})"
        return f"{{'k': {e()}}}.k"

    def statements(self, depth=0):
        made = self.blank()
        for _ in range(self.random.randrange(1, 4)):
            form = self.random.randrange(8)
            if form < 3 or depth > 2:
                made += self.tag(self.expression(), "{")
            elif form == 3:
                made += self.tag(f"if {self.expression()}") + self.statements(depth + 1)
                if self.random.random() < 0.3:
                    made += self.tag(f"elif {self.expression()}") + self.statements(depth + 1)
                if self.random.random() < 0.5:
                    made += self.tag("else") + self.statements(depth + 1)
                made += self.tag("endif")
            elif form == 4:
                over = self.pick("messages", "messages", "messages[1:]", "range(3)", "[]", "missing", "'abc'", "range(2, 9, 3)")
                condition = self.pick("", "", f" if {self.expression(2)}")
                made += self.tag(f"for {self.pick('message', 'message', 'name')} in {over}{condition}") + self.statements(depth + 1)
                if self.random.random() < 0.2:
                    made += self.tag(f"if {self.expression()}") + self.tag(self.pick("break", "continue")) + self.tag("endif")
                if self.random.random() < 0.3:
                    made += self.tag("else") + self.statements(depth + 1)
                made += self.tag("endfor")
            elif form == 5:
                made += self.tag(f"set {self.pick('name', 'other')} = {self.expression()}")
            elif form == 6:
                made += self.tag("set ns = namespace(x=1)") + self.tag(f"for i in range(2)") + self.tag(
                    f"set ns.x = ns.x {self.pick('+', '~')} i") + self.tag("endfor") + self.tag("ns.x", "{")
            else:
                made += self.tag("a comment {{ x }}", "#")
            made += self.blank()
        return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates")
    options = parser.parse_args()

    warnings.simplefilter("ignore", SyntaxWarning)  # of the Python that jinja2 makes of drawn templates
    env = environment()
    drawn = Drawn(options.seed)
    cases = [("form", text) for text in FORMS] + [("drawn", drawn.statements()) for _ in range(options.count)]
    if options.templates:
        cases += [(path.name, path.read_text()) for path in sorted(pathlib.Path(options.templates).glob("*.jinja"))]
    asked, wanted = [], []
    for kind, text in cases:
        for conversation in CONVERSATIONS:
            for prompt in (False, True):
                variables = {"messages": conversation, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
                asked.append((kind, text, variables))
                try:
                    wanted.append(env.from_string(text).render(variables))
                except Exception as error:  # whatever a template brings Python to
                    wanted.append(error)
    for text in UNKNOWN:
        asked.append(("unknown", text, {"messages": []}))
        wanted.append(ValueError("unknown"))
    lines = "".join(json.dumps({"template": text, "variables": variables}) + "\n" for _, text, variables in asked)
    run = subprocess.run([options.program], input=lines, capture_output=True, text=True)
    answers = run.stdout.splitlines()
    wrong, refused, same, refusals = 0, 0, 0, {}
    for (kind, text, variables), want, line in zip(asked, wanted, answers):
        answer = json.loads(line)
        if isinstance(want, Exception):
            # What Python prints, and cannot compute, is not compared further: an error is an error.
            if "text" in answer and kind == "unknown":
                wrong += 1
                print(f"taken: {text!r}: {answer['text']!r}")
            continue
        if "error" in answer:
            refused += 1
            why = answer["error"]
            refusals[why[why.find(":") + 2:]] = refusals.get(why[why.find(":") + 2:], 0) + 1
            if kind == "form":
                wrong += 1
                print(f"refused: {text!r}: {why}")
        elif answer["text"] != want:
            wrong += 1
            print(f"{kind}: {text!r} with {json.dumps(variables)}\n  gives  {answer['text']!r}\n  jinja2 {want!r}")
        else:
            same += 1
    if run.returncode or len(answers) != len(asked):
        wrong += 1
        print(f"the program ended with {run.returncode} after {len(answers)} of {len(asked)} templates\n{run.stderr}")
    print(f"{same} texts are jinja2's, {refused} were refused here alone, {wrong} are wrong")
    for why, count in sorted(refusals.items(), key=lambda each: -each[1])[:12]:
        print(f"  {count} × {why}")
    return 1 if wrong or same < 8 * len(FORMS) else 0


if __name__ == "__main__":
    sys.exit(main())
