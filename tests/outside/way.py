"""One drawn setting with variations of the run: what a daily run has for each graph."""

import collections
import dataclasses
import re


@dataclasses.dataclass
class Way:
    """How a graph is run."""

    marches: list
    target: list
    runs: int = 1
    captured: bool = False
    loose: bool = False  # products of 16-bit numbers
    verified: bool = False
    interpreted: bool = False

    def options(self, rng, text):
        options = ["-O" + rng.choice("0123"), "--threads=" + rng.choice("12")]
        march = rng.choice(self.marches)
        options += [f"-march={march}"] if march else []
        if "tcc.yield" not in text:
            return [*options, f"--run={self.runs}", *self.target]
        draw = rng.random()
        interpreted = "i64" not in text  # which the interpreter knows up to 2^53
        self.captured = rng.random() < 0.1
        if self.target:
            return [*options, f"--run={self.runs}", *self.target]
        if draw < 0.1 and self.runs == 1 and interpreted:
            self.interpreted = True
            return ["--run=reference"]
        self.loose, self.verified = draw > 0.92, 0.1 < draw < 0.25 and interpreted
        left = rng.choice(["match-attention", "simplify", "pad-shapes", "fuse-epilogues"])
        options += [f"-fno-{left}"] * (rng.random() < 0.15)
        return [*options, f"--run={self.runs}", *["--dtype=bf16"] * self.loose, *["-fverify-each"] * self.verified]

    def counts(self, text):
        """What kinds of graphs and ways there were."""
        body, counts = text.count("tcc.yield"), collections.Counter()
        for what, seen in [("with bodies", body), ("cond", "tcc.cond" in text), ("repeat", "tcc.repeat" in text),
                           ("custom", "tcc.custom" in text), ("gradient of custom", "} gradient (" in text),
                           ("gradient inside", re.search(r"v\d+(:\d+)? = tcc.gradient", text)), ("gradient", "%d0" in text),
                           ("nested", re.search(r"^\s{4,}tcc.yield", text, re.M)),
                           ("nested deeper", re.search(r"^\s{6,}tcc.yield", text, re.M)), ("states", "tcc.state" in text),
                           ("several runs", self.runs > 1), ("captured", self.captured), ("16-bit products", self.loose),
                           ("verified", self.verified), ("interpreted", self.interpreted)]:
            counts[what] += bool(seen)
        return counts
