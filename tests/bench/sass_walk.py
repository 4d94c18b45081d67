"""Walks one thread through a kernel's SASS and counts what its warp issues.

A thread's control flow follows from its indices, the launch's parameters and constants, which the walk computes; what
comes from memory or floating point is unknown. A branch on something unknown falls through, unless what follows calls a
function (slow paths of divisions are cold) or has a loop in it (a scatter's search finds a row in few of its steps). An
unknown loop that is entered all the same runs once. Both are reported.
"""
import collections
import re
import struct

MASK = 0xFFFFFFFF
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[0-9T]+)\s+)?([A-Z][A-Z0-9_.a-z]*)\s*(.*?)\s*;")
REGISTER = re.compile(r"^U?R(\d+|Z)$")
PREDICATE = re.compile(r"^!?U?P(\d|T)$")
CONSTANT = re.compile(r"c\[0x0\]\[([^\]]*)\]")

Instruction = collections.namedtuple("Instruction", "guard opcode operands")


def parse(text):
    """nvdisasm's text as {kernel: (instructions, {label: index})}."""
    kernels, current, labels = {}, None, {}
    for line in text.splitlines():
        start = re.match(r"\.text\.(\S+):", line)
        if start:
            current, labels = [], {}
            kernels[start.group(1)] = (current, labels)
        elif current is None:
            continue
        elif line.startswith("\t.section") or line.startswith("//---"):
            current = None
        elif re.match(r"\.L_\S+:", line):
            labels[line.strip()[:-1]] = len(current)
        elif match := LINE.search(line):
            operands = match.group(4).replace(".reuse", "").split(",") if match.group(4) else []
            current.append(Instruction(match.group(2), match.group(3), [part.strip() for part in operands]))
    return kernels


def signed(value):
    return value - (1 << 32) if value & 0x80000000 else value


def bits(value, table, others):
    """LOP3's table of three 32-bit words, of which unknown ones are None: known where the table does not ask them."""
    words = [value, *others]
    # A word that the table does not depend on may be unknown.
    for place, step in enumerate((4, 2, 1)):
        if all((table >> i & 1) == (table >> (i ^ step) & 1) for i in range(8)):
            words[place] = 0
    if None in words:
        return None
    result = 0
    for i in range(8):
        if table >> i & 1:
            part = MASK
            for word, step in zip(words, (4, 2, 1)):
                part &= word if i & step else ~word & MASK
            result |= part
    return result


class Walk:
    def __init__(self, kernel, thread, block, sizes, parameters, memory, base, most):
        """`sizes`: of block and grid, six numbers; `base`: where parameters begin in the bank of constants."""
        self.code, self.labels, self.sizes = *kernel, sizes
        self.special = {"SR_TID.X": thread, "SR_LANEID": thread % 32, "SR_CTAID.X": block[0], "SR_CTAID.Y": block[1],
                        "SR_CTAID.Z": 0, "SR_TID.Y": 0, "SR_TID.Z": 0}
        self.registers, self.predicates = {}, {}
        self.parameters, self.memory, self.base, self.most = parameters, memory, base, most
        self.counts = collections.Counter()
        self.waits, self.nearWaits = 0, 0  # for what no load before had; for what one had, which a cache has
        self.unresolved = set()
        self.loaded, self.seen = {}, set()  # by register in flight: whether it is near; addresses that were read

    # --- operands ---------------------------------------------------------------------------------------------------
    def constant(self, text, words=1):
        place = CONSTANT.search(text).group(1).replace("RZ", "0x0")
        if not re.fullmatch(r"0x[0-9a-f]+", place):
            return [None] * words
        if int(place, 16) < 24 and words == 1:  # the sizes of block and grid
            return [self.sizes[int(place, 16) // 4]]
        offset = int(place, 16) - self.base
        if offset < 0 or offset + 4 * words > len(self.parameters):
            return [None] * words
        return [int.from_bytes(self.parameters[offset + 4 * i:offset + 4 * i + 4], "little") for i in range(words)]

    def value(self, text):
        """A 32-bit operand, or None."""
        negative, inverted = text.startswith("-") and not text.startswith("-0x"), text.startswith("~")
        core = text.lstrip("-~|").rstrip("|") if negative or inverted else text
        core = core.split(".")[0] if core[:1] in "RU" else core
        if REGISTER.match(core):
            found = 0 if core.endswith("RZ") else self.registers.get(core)
        elif core.startswith("c["):
            found = self.constant(core)[0]
        elif re.fullmatch(r"-?0x[0-9a-f]+", core):
            found = int(core, 16) & MASK
        elif re.fullmatch(r"-?\d+", core):
            found = int(core) & MASK
        else:
            found = None
        if found is None:
            return None
        return -found & MASK if negative else ~found & MASK if inverted else found

    def pair(self, text):
        core = text.split(".")[0]
        match = REGISTER.match(core)
        if match and match.group(1) != "Z":
            high = core.rstrip("0123456789") + str(int(match.group(1)) + 1)
            low, high = self.value(core), self.registers.get(high)
        elif text.startswith("c["):
            low, high = self.constant(text, 2)
        else:
            low = self.value(text)
            high = None if low is None else MASK if low & 0x80000000 else 0
        return None if low is None or high is None else high << 32 | low

    def predicate(self, text):
        name = text.lstrip("!")
        known = True if name in ("PT", "UPT") else self.predicates.get(name)
        return None if known is None else known != text.startswith("!")

    def set(self, text, value):
        if not text.endswith("RZ"):
            self.registers[text.split(".")[0]] = value

    def setPair(self, text, value):
        match = REGISTER.match(text.split(".")[0])
        if match and match.group(1) != "Z":
            name, number = text.split(".")[0].rstrip("0123456789"), int(match.group(1))
            self.registers[f"{name}{number}"] = None if value is None else value & MASK
            self.registers[f"{name}{number + 1}"] = None if value is None else value >> 32 & MASK

    def setPredicate(self, text, value):
        if text not in ("PT", "UPT"):
            self.predicates[text] = value

    # --- instructions -----------------------------------------------------------------------------------------------
    def add(self, opcode, operands):
        outs = []
        while PREDICATE.match(operands[1]) and len(operands) > 4:
            outs.append(operands.pop(1))
        terms, carries = operands[1:4], operands[4:]
        total, unknown = 0, False
        for term in terms:
            isMinus = term.startswith(("-R", "-U"))
            value = self.value(term.lstrip("-") if isMinus else term)
            unknown |= value is None
            total += 0 if value is None else (~value & MASK) + 1 if isMinus else value
        if ".X" in opcode:
            for carry in carries:
                known = self.predicate(carry)
                unknown |= known is None
                total += bool(known)
        self.set(operands[0], None if unknown else total & MASK)
        for out in outs:
            self.setPredicate(out, None if unknown else bool(total >> 32))

    def multiply(self, opcode, operands):
        out = operands.pop(1) if PREDICATE.match(operands[1]) else None
        wide = ".WIDE" in opcode
        a, b = self.value(operands[1]), self.value(operands[2])
        c = self.pair(operands[3]) if wide else self.value(operands[3])
        carry = self.predicate(operands[4]) if ".X" in opcode and len(operands) > 4 else False
        known = None not in (a, b, c, carry)
        if (a == 0 or b == 0) and c is not None and carry is not None:
            a, b, known = a or 0, b or 0, True
        total = None
        if known:
            factors = (a, b) if ".U32" in opcode else (signed(a), signed(b))
            total = factors[0] * factors[1]
            total = (total >> 32 if ".HI" in opcode else total) + c + carry
        if wide:
            self.setPair(operands[0], None if total is None else total & (1 << 64) - 1)
        else:
            self.set(operands[0], None if total is None else total & MASK)
        if out:
            self.setPredicate(out, None if total is None else bool(total >> 64))

    def compare(self, opcode, operands):
        parts = opcode.split(".")
        a, b, base = self.value(operands[2]), self.value(operands[3]), self.predicate(operands[4])
        result = None
        if a is not None and b is not None:
            if "U32" not in parts:
                a, b = signed(a), signed(b)
            result = {"LT": a < b, "LE": a <= b, "GT": a > b, "GE": a >= b, "EQ": a == b, "NE": a != b}[parts[1]]
            if "EX" in parts:
                low = self.predicate(operands[5])
                equal = {"EQ": low, "NE": low}.get(parts[1], low)
                result = equal if a == b else result

        def joined(value):
            if "OR" in parts:
                return True if value or base else None if value is None or base is None else False
            if "XOR" in parts:
                return None if value is None or base is None else value != base
            return False if value is False or base is False else None if value is None or base is None else True
        self.setPredicate(operands[0], joined(result))
        self.setPredicate(operands[1], joined(None if result is None else not result))

    def shift(self, opcode, operands):
        low, amount, high = (self.value(text) for text in operands[1:4])
        result = None
        if amount is not None:
            if ".L" in opcode and ".HI" not in opcode and low is not None and "64" not in opcode:
                result = low << amount & MASK
            elif ".R" in opcode and ".HI" in opcode and operands[1].endswith("RZ") and high is not None:
                result = (signed(high) if ".S32" in opcode else high) >> amount & MASK
            elif ".R" in opcode and ".HI" not in opcode and operands[3].endswith("RZ") and low is not None:
                result = low >> amount & MASK
        self.set(operands[0], result)

    def logic(self, operands):
        if PREDICATE.match(operands[0]):
            target, rest = operands[0], operands[2:]
        else:
            target, rest = None, operands[1:]
        result = bits(self.value(rest[0]), int(rest[3], 16), [self.value(rest[1]), self.value(rest[2])])
        if target:
            self.setPredicate(target, None if result is None else result != 0)
        self.set(operands[1] if target else operands[0], result)

    def predicateLogic(self, operands):
        words = [None if (known := self.predicate(text)) is None else MASK if known else 0 for text in operands[2:5]]
        for target, table in zip(operands[:2], operands[5:7]):
            result = bits(words[0], int(table, 16), words[1:])
            self.setPredicate(target, None if result is None else result != 0)

    def scaledAdd(self, opcode, operands):
        out = operands.pop(1) if PREDICATE.match(operands[1]) else None
        a, b = self.value(operands[1]), self.value(operands[2])
        total = None
        if ".HI" in opcode and ".X" not in opcode and ".SX32" not in opcode:
            high = self.value(operands[3])
            if None not in (a, b, high):
                total = (((high << 32 | a) >> (32 - int(operands[4], 16))) & MASK) + b
        elif ".HI" not in opcode and a is not None and b is not None:
            total = ((a << int(operands[3], 16)) & MASK) + b
        self.set(operands[0], None if total is None else total & MASK)
        if out:
            self.setPredicate(out, None if total is None else bool(total >> 32))

    def load(self, opcode, operands):
        words = 4 if ".128" in opcode else 2 if ".64" in opcode else 1
        match = re.search(r"\[(U?R\d+)(?:\.64)?(?:\+(-?0x[0-9a-f]+))?\]$", operands[1])
        address = self.pair(match.group(1)) if match and opcode.startswith("LDG") else None
        if address is not None:
            address += int(match.group(2) or "0", 16)
        near = address is not None and address in self.seen
        self.seen.add(address)
        first = REGISTER.match(operands[0]).group(1)
        for i in range(words if first != "Z" else 0):
            value = None
            for start, content in self.memory.items():
                if address is not None and start <= address + 4 * i and address + 4 * i + 4 <= start + len(content):
                    at = address + 4 * i - start
                    value = int.from_bytes(content[at:at + 4], "little")
            self.registers[f"R{int(first) + i}"] = value
            if opcode.startswith("LDG"):
                self.loaded[f"R{int(first) + i}"] = near

    def execute(self, opcode, operands):
        family = opcode.split(".")[0]
        plain = family[1:] if family in ("UIADD3", "UMOV", "UIMAD", "UISETP", "USHF", "ULOP3", "USEL", "ULDC", "ULEA",
                                         "UPLOP3", "UIMNMX") else family
        if plain in ("MOV", "R2UR"):
            self.set(operands[0], self.value(operands[-1] if len(operands) == 2 else operands[1]))
        elif plain in ("IADD3", "VIADD", "IADD"):
            self.add(opcode, list(operands) + (["RZ"] if len(operands) == 3 else []))
        elif plain == "IMAD":
            self.multiply(opcode, list(operands))
        elif family == "HFMA2" and operands[1].endswith("RZ") and re.match(r"^-?[0-9]", operands[3]):
            halves = [int.from_bytes(struct.pack("<e", float(text)), "little") for text in operands[3:5]]
            self.set(operands[0], halves[0] << 16 | halves[1])  # 0 · 0 + c: how a constant gets into a register
        elif plain == "ISETP":
            self.compare(opcode.lstrip("U"), operands)
        elif plain in ("SHF", "SHL"):
            self.shift(opcode, operands)
        elif plain == "LOP3":
            self.logic(operands)
        elif plain == "PLOP3":
            self.predicateLogic(operands)
        elif plain == "LEA":
            self.scaledAdd(opcode, list(operands))
        elif plain == "SEL":
            choice = self.predicate(operands[3])
            self.set(operands[0], None if choice is None else self.value(operands[1 if choice else 2]))
        elif plain in ("IMNMX", "VIMNMX"):
            a, b, least = self.value(operands[1]), self.value(operands[2]), self.predicate(operands[3])
            known = None not in (a, b, least) and ".U32" not in opcode
            self.set(operands[0], (min if least else max)(signed(a), signed(b)) & MASK if known else None)
        elif family in ("S2R", "S2UR"):
            self.set(operands[0], self.special.get(operands[1]))
        elif family == "CS2R":
            self.setPair(operands[0], 0 if operands[1] == "SRZ" else None)
        elif plain in ("LDC",):
            if ".64" in opcode:
                low, high = self.constant(operands[1], 2)
                self.setPair(operands[0], None if low is None else high << 32 | low)
            else:
                self.set(operands[0], self.constant(operands[1])[0])
        elif family == "SHFL":
            self.set(operands[1], self.value(operands[2]) if ".IDX" in opcode else None)
        elif family == "FCHK":
            self.setPredicate(operands[0], False)
        elif family in ("LDG", "LDS", "LDL", "LD"):
            self.load(opcode, operands)
        elif family not in ("STG", "STS", "STL", "ST", "BAR", "BSSY", "BSYNC", "NOP", "WARPSYNC", "MEMBAR", "RED"):
            for text in operands[:2]:
                if PREDICATE.match(text):
                    self.setPredicate(text, None)
            if operands and REGISTER.match(operands[0]):
                self.set(operands[0], None)

    def waitsFor(self, operands, writesFirst):
        for text in operands[1:] if writesFirst else operands:
            for name in re.findall(r"\bR\d+\b", text):
                if name in self.loaded:
                    return True
        return False

    def isCold(self, at):
        """Whether the code from `at` to its next label or branch calls a function."""
        starts = set(self.labels.values())
        for i in range(at, len(self.code)):
            if self.code[i].opcode.startswith("CALL"):
                return True
            if (i > at and i in starts) or self.code[i].opcode.startswith(("BRA", "EXIT", "RET")):
                return False
        return False

    def holdsLoop(self, start, end):
        """Whether the code from `start` to `end` has a branch back into itself."""
        for i in range(start, end):
            if self.code[i].opcode.startswith("BRA") and ".DIV" not in self.code[i].opcode:
                if start <= self.labels[re.search(r"\.L_\w+", self.code[i].operands[-1]).group(0)] <= i:
                    return True
        return False

    def run(self):
        at = 0
        for _ in range(self.most):
            if at >= len(self.code):
                return self
            guard, opcode, operands = self.code[at]
            at += 1
            family = opcode.split(".")[0]
            if family == "NOP":
                continue
            taken = True if guard is None else self.predicate(guard)
            stores = family.startswith("ST") or family in ("BAR", "EXIT")
            if self.loaded and self.waitsFor(operands, not stores):
                self.waits += not all(self.loaded.values())
                self.nearWaits += all(self.loaded.values())
                self.loaded.clear()
            self.counts[opcode] += 1
            if family == "EXIT":
                if taken:
                    return self
            elif family == "BRA" and ".DIV" not in opcode:
                target = self.labels[re.search(r"\.L_\w+", operands[-1]).group(0)]
                if any(PREDICATE.match(text) for text in operands[:-1]):
                    known = self.predicate(operands[0])
                    taken = None if None in (taken, known) else taken and known
                if taken is None:
                    skipsLoop = self.holdsLoop(at, target)
                    taken = skipsLoop or self.isCold(at)
                    if target < at or skipsLoop:
                        self.unresolved.add(target)
                if taken:
                    at = target
            elif family in ("CALL", "RET"):
                self.unresolved.add(at)
            elif taken is not False:
                before = dict(self.predicates) if taken is None else None
                self.execute(opcode, operands)
                if taken is None:
                    for name, value in self.predicates.items():
                        if before.get(name) != value:
                            self.predicates[name] = None
                    for text in operands[:2]:
                        if REGISTER.match(text):
                            self.set(text, None)
        self.unresolved.add(-1)
        return self
