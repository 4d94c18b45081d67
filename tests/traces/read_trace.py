"""Reads a Chrome trace and refuses one that is not well formed: complete events, counters and names alone; every row
named; events of a row within each other or apart; counters in the order of time. Times are whole nanoseconds."""

import json
from dataclasses import dataclass, field


class Malformed(Exception):
    pass


@dataclass
class Event:
    name: str
    category: str
    row: str
    start: int
    end: int
    args: dict
    parent: "Event | None" = None
    children: list = field(default_factory=list)

    @property
    def ns(self):
        return self.end - self.start


def nanoseconds(microseconds):
    exact = microseconds * 1000
    whole = round(exact)
    if abs(exact - whole) > 1e-3:
        raise Malformed(f"{microseconds} us is no whole number of nanoseconds")
    return whole


def require(condition, what):
    if not condition:
        raise Malformed(what)


class Trace:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            document = json.load(file, parse_constant=lambda name: require(False, f"{name} is no number of JSON"))
        self.title, self.rows, self.events, self.counters = None, {}, [], {}
        for one in document["traceEvents"]:
            require(one["pid"] == 1, f"another process: {one}")
            if one["ph"] == "M":
                self.add_name(one)
        for one in document["traceEvents"]:
            if one["ph"] == "X":
                self.add_event(one)
            elif one["ph"] == "C":
                values = self.counters.setdefault(one["name"], [])
                at = nanoseconds(one["ts"])
                require(not values or values[-1][0] <= at, f"counter {one['name']} goes back to {at} ns")
                (value,) = one["args"].values()
                values.append((at, value))
            else:
                require(one["ph"] == "M", f"neither complete event, counter nor name: {one}")
        for row in self.rows.values():
            self.nest(row)

    def add_name(self, one):
        if one["name"] == "process_name":
            require(self.title is None, "two names of the process")
            self.title = one["args"]["name"]
        else:
            require(one["name"] == "thread_name", f"unknown name {one['name']}")
            require(one["tid"] not in self.rows, f"two names of row {one['tid']}")
            require(one["args"]["name"] not in self.rows.values(), f"two rows {one['args']['name']}")
            self.rows[one["tid"]] = one["args"]["name"]

    def add_event(self, one):
        require(one["tid"] in self.rows, f"row {one['tid']} has no name")
        start, length = nanoseconds(one["ts"]), nanoseconds(one["dur"])
        require(start >= 0 and length >= 0, f"before the trace, or ends before it begins: {one}")
        self.events.append(Event(one["name"], one["cat"], self.rows[one["tid"]], start, start + length, one["args"]))

    def nest(self, row):
        open_events = []
        for event in sorted(self.of_row(row), key=lambda event: (event.start, -event.end)):
            while open_events and open_events[-1].end <= event.start:
                open_events.pop()
            if open_events:
                event.parent = open_events[-1]
                require(event.end <= event.parent.end, f"{event.name} overlaps {event.parent.name} in row {row}: "
                        f"{event.start}..{event.end} and {event.parent.start}..{event.parent.end} ns")
                event.parent.children.append(event)
            open_events.append(event)

    def of_row(self, row):
        return [event for event in self.events if event.row == row]

    def named(self, name):
        return [event for event in self.events if event.name == name]

    def of(self, *categories):
        return [event for event in self.events if event.category in categories]
