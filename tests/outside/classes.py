"""The classes of graphs by name; `each` takes them in turn, so that a range of seeds has equal shares."""

import near_attention
import narrow
import one_answer
import orders
import random_graphs
import several
import special
import steps
import sums
import twice
from case import Case


def plain(rng):
    return Case(*special.graph_of(rng)) if rng.random() < 0.25 else random_graphs.random_graph(rng)


CLASSES = {"plain": plain, "control": random_graphs.control_graph, "several": several.several_results, "twice": twice.read_twice,
           "sums": sums.long_sums, "attention": near_attention.near_attention, "orders": orders.third_order,
           "steps": steps.training, "narrow": narrow.sixteen_bits, "exact": one_answer.one_answer}


def make(rng, kind, seed):
    """The name of a class and a graph of it."""
    if kind == "any":
        kind = "control" if rng.random() < 0.3 else "plain"
    elif kind == "each":
        kind = list(CLASSES)[seed % len(CLASSES)]
    return kind, CLASSES[kind](rng)
