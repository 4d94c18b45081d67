#!/usr/bin/env python3
"""Tokens of train_gpt beside those of the `tokenizers` package.

  tokenizers_parity.py --train build/bin/train_gpt [--text book.txt]    a whole book, every code point, odd texts
  tokenizers_parity.py --write tests/models/tokenizer_samples           small tokenizers and their tokens for tokenizer_test

The tokenizers are trained on the text (the King James Bible where it is installed): GPT-2's kind as vocab.json and
merges.txt and as tokenizer.json, and Llama 3's kind with NFC. Exit status 77 where the package or a text is missing, 1
where a token differs.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
KINDS = (r"\p{L}+", r"\w+", r"\d", r"[\p{Lu}\p{Lt}]+", r"\p{M}+", r"[\p{P}\p{S}]+", r"\p{Han}+", r"\P{N}+")
NEW = "a\ua7cbb \U000105c0\U000105c1 1\U00010d402 x\u0897y \U00031350\u4e16 \U0001fae8!"  # of Unicode 15 and 16
ODD = [
    "", " ", "\n", "  \n\n  x", "Hello world", "don't DON'T I'LL we've", "1234567 3.14", "tabs\t\tand\r\nlines\r\n",
    "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m A\u030angstro\u0308m \ufb01 \u1e9b\u0323", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\u4f60\u597d\uff0c\u4e16\u754c", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|>", "<|endoftext|", "\u00a0\u2003\u3000x", "\x00\x01\x7f", "a" * 300, " " * 70 + "x",
    NEW,
    "\u0301\u0301\u0301", "\ufffd\ufeffx", "_under_score--dash__", "\u00b2\u00bd\u2167", "'S 'T",
]
BAD = [b"\xff", b"a\xc3", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\x80\x80",
       b"ok \xf0\x9f\x98\x80 \xfe end"]


def gpt2(lines, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"],
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                             show_progress=False))
    return tokenizer


def llama3(lines, size):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size - 2, show_progress=False,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("caf\u00e9", normalized=True)])
    return tokenizer


def pairs(splitter):
    """Every two bytes of one piece are a token, so that ids tell pieces apart."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(letters + [a + b for a in letters for b in letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [(a, b) for a in letters for b in letters]))
    tokenizer.pre_tokenizer = splitter
    return tokenizer


def learned(train, text, size, scratch):
    """Whether --train-tokenizer finds the package's tokens and merges, for the whole text as one piece."""
    folder, data = os.path.join(scratch, f"learned-{size}"), os.path.join(scratch, "text.txt")
    with open(data, "wb") as file:
        file.write(text.encode())
    subprocess.run([train, "--data", data, "--tokenizer", folder, f"--train-tokenizer={size}", "--dump-tokens",
                    os.path.join(scratch, "learned.bin"), "--quiet"], check=True)
    made, expected = (json.loads(source)["model"] for source in
                      (open(os.path.join(folder, "tokenizer.json")).read(), gpt2([text], size).to_str()))
    same = made["vocab"] == expected["vocab"] and made["merges"] == expected["merges"]
    print(f"learned: {len(made['vocab'])} tokens, {len(made['merges'])} merges {'equal' if same else 'DIFFER'}")
    return same


def travels(train, folder, tokenizer, data, scratch):
    """Whether AutoTokenizer reads what --save leaves beside weights as `tokenizer`; None: as bytes."""
    try:
        import transformers
    except ImportError as error:
        print(f"AutoTokenizer is not tried: {error}")
        return True
    source = os.path.join(scratch, "text")
    with open(source, "wb") as file:
        file.write(data)
    good = True
    for model in ("baby", "llama-baby", "modern-124m"):
        saved = os.path.join(scratch, "saved", model, os.path.basename(folder))
        subprocess.run([train, "--model", model, "--data", source, "--layers=1", "--heads=2", "--width=16", "--seq=16", "--batch=2",
                        "--steps=0", "--quiet", "--save", saved] + (["--tokenizer", folder] if tokenizer else []), check=True)
        auto = transformers.AutoTokenizer.from_pretrained(saved)
        same = all(auto(text, add_special_tokens=False)["input_ids"] ==
                   (tokenizer.encode(text, add_special_tokens=False).ids if tokenizer else list(text.encode())) for text in ODD)
        config = json.load(open(os.path.join(saved, "config.json")))
        ends = [config["bos_token_id"], config["eos_token_id"]]
        same = same and ends == [auto.bos_token_id, auto.eos_token_id] == ([tokenizer.token_to_id("<|endoftext|>")] * 2 if tokenizer
                                                                           else [None, None])
        print(f"AutoTokenizer of {model} by {os.path.basename(folder) if tokenizer else 'bytes'}, ends {ends}: "
              f"{'equal' if same else 'DIFFERS'}")
        good &= same
    return good


def save(tokenizer, folder, as_files):
    os.makedirs(folder, exist_ok=True)
    if as_files:
        tokenizer.model.save(folder)
    else:
        tokenizer.save(os.path.join(folder, "tokenizer.json"))


def book(path):
    if path:
        return open(path, "rb").read().decode("utf-8", "replace")
    try:
        text = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print("skipped: no --text, and the program bible (package bible-kjv) is not installed")
        sys.exit(77)
    return text.decode("utf-8", "replace")


def write(folder, text):
    lines = text.splitlines()[:3000]
    cases = []
    for name, tokenizer, as_files in (("gpt2", gpt2(lines, 340), True), ("llama3", llama3(lines, 340), False)):
        save(tokenizer, os.path.join(folder, name), as_files)
        texts = [sample.encode() for sample in ODD] + BAD + ["\n".join(lines[40:44]).encode()]
        cases.append({"name": name, "samples": [
            {"bytes": list(sample), "ids": tokenizer.encode(sample.decode("utf-8", "replace"), add_special_tokens=False).ids}
            for sample in texts]})
    # Lengths of the pieces, in bytes: of what Unicode 15 and 16 added, by patterns that tokenizers have.
    pieces = [{"pattern": pattern, "text": sample, "lengths": [len(piece.encode()) for piece, _ in
               pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(sample)]}
              for pattern in (GPT2, LLAMA3, *KINDS) for sample in (NEW, "1\U00010d40\U00010d412", "a\ua7cbb", "\u65e5\U00031350\u672c")]
    with open(os.path.join(folder, "pieces.json"), "w") as file:
        json.dump(pieces, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(cases, file)
        file.write("\n")


def tokens(train, folder, data, scratch):
    source, shard = os.path.join(scratch, "text"), os.path.join(scratch, "tokens")
    with open(source, "wb") as file:
        file.write(data)
    subprocess.run([train, "--data", source, "--tokenizer", folder, "--dump-tokens", shard, "--quiet"], check=True)
    return np.fromfile(shard, dtype="<i4")[256:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train")
    parser.add_argument("--write")
    parser.add_argument("--text")
    parser.add_argument("--quick", action="store_true", help="parts of the texts: seconds, not minutes")
    options = parser.parse_args()
    text = book(options.text)
    if options.write:
        write(options.write, text)
        return 0
    if options.quick:
        text = text[:300000]
    parts = ((1, 0x3000), (0xa600, 0xac00), (0x10400, 0x12000)) if options.quick else ((1, 0xd800), (0xe000, 0x110000))
    points = [chr(point) for first, end in parts for point in range(first, end)]
    texts = {
        "the book": text.encode(),
        "every code point between letters": "\n".join(f"a{point}b" for point in points).encode(),
        "every code point after a space": "".join(f" {point}" for point in points).encode(),
        "odd texts": "\n".join(ODD).encode(),
        "odd bytes": b"\n".join(BAD) + bytes(range(256)) * 3 + np.random.default_rng(1).bytes(20000),
    }
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        for size in (257, 300, 1000 if options.quick else 4096):
            good &= learned(options.train, text, size, scratch)
        good &= travels(options.train, "", None, text[:20000].encode(), scratch)
        lines = text.splitlines()
        first, second = gpt2(lines, 1000 if options.quick else 4096), llama3(lines, 1000 if options.quick else 4096)
        splitters = [pre_tokenizers.ByteLevel(add_prefix_space=False), second.pre_tokenizer]
        for name, tokenizer, as_files in (("gpt2 files", first, True), ("gpt2 json", first, False), ("llama3", second, False),
                                          ("gpt2's pieces", pairs(splitters[0]), False), ("llama3's pieces", pairs(splitters[1]), False)):
            folder = os.path.join(scratch, name)
            save(tokenizer, folder, as_files)
            if "pieces" not in name:
                good &= travels(options.train, folder, tokenizer, text[:20000].encode(), scratch)
            for what, data in texts.items():
                seen = tokens(options.train, folder, data, scratch)
                expected = np.array(tokenizer.encode(data.decode("utf-8", "replace"), add_special_tokens=False).ids)
                same = np.array_equal(seen, expected)
                good &= same
                print(f"{name}, {what}: {len(expected)} tokens {'equal' if same else 'DIFFER'}")
                if not same:
                    length = min(len(seen), len(expected))
                    at = int(np.argmax(seen[:length] != expected[:length])) if (seen[:length] != expected[:length]).any() else length
                    print(f"  from token {at}: {[tokenizer.id_to_token(int(i)) for i in seen[at:at + 5]]} for "
                          f"{[tokenizer.id_to_token(int(i)) for i in expected[at:at + 5]]}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
