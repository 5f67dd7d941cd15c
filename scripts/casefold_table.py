#!/usr/bin/env python3
"""Writes crates/core/src/fuzzy/folding.rs: the full case folding of this Python's `str.casefold()`.

Run from the root of the repository: python3 scripts/casefold_table.py > crates/core/src/fuzzy/folding.rs
"""

import sys
import unicodedata

WIDTH = 120


def foldings():
    """Every code point beyond ASCII that folding changes, split into single and full (longer) foldings."""
    single, full = [], []
    for code in range(0x80, 0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        folded = chr(code).casefold()
        if folded == chr(code):
            continue
        if len(folded) == 1:
            single.append((code, ord(folded) - code))
        else:
            full.append((code, folded))
    return single, full


def ranges(single):
    """Joins neighbours with the same distance to their folding and the same step (1 or 2) into ranges."""
    found = []
    for code, delta in single:
        if found:
            first, last, step, last_delta = found[-1]
            gap = code - last
            if delta == last_delta and gap <= 2 and (first == last or gap == step):
                found[-1] = (first, code, gap, delta)
                continue
        found.append((code, code, 1, delta))
    return found


def full_entry(code, text):
    """One row of the table of full foldings, with everything beyond ASCII escaped."""
    escaped = "".join(c if c.isascii() else "\\u{%X}" % ord(c) for c in text)
    return "('\\u{%X}', \"%s\")," % (code, escaped)


def print_table(name, kind, doc, entries):
    print(f"\n/// {doc}\n#[rustfmt::skip]\npub(super) const {name}: &[{kind}] = &[")
    line = "   "
    for entry in entries:
        if len(line) + 1 + len(entry) > WIDTH:
            print(line)
            line = "   "
        line += " " + entry
    print(line + "\n];")


def main():
    single, full = foldings()
    print("//! Full case folding (C and F of CaseFolding.txt) beyond ASCII, sorted for binary search.")
    print(f"//! Made by scripts/casefold_table.py with Python {sys.version_info.major}.{sys.version_info.minor}, "
          f"Unicode {unicodedata.unidata_version}. Do not edit: change the script.")
    print_table(
        "SINGLE", "(u32, u32, u32, i32)",
        "Code points that fold to one other: first, last, step, distance to the folding.",
        [f"(0x{a:X}, 0x{b:X}, {step}, {delta})," for a, b, step, delta in ranges(single)],
    )
    print_table(
        "FULL", "(char, &str)", "Code points that fold to more than one.",
        [full_entry(code, text) for code, text in full],
    )


if __name__ == "__main__":
    main()
