#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""json.py PRINTED KEYS: the JSON that verbs have printed has exactly the keys that are listed, of the types there.

A line of PRINTED is a verb, a tab, and what it has printed. A line of KEYS is a verb, a colon, the path of a key, and the
type of its value; "null": the test sees no value. For verbs that print what this host has, which the test cannot know, it
is a pattern of source files, a colon, a key that they print, and "source".
"""

import json
import pathlib
import sys

TYPES = {dict: "object", list: "array", str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}


def walk(path, value, seen):
    if seen.get(path, "null") == "null":
        seen[path] = TYPES[type(value)]
    if isinstance(value, dict):
        for key, inner in value.items():
            walk(f"{path}.{key}", inner, seen)
    for inner in value if isinstance(value, list) else []:
        if isinstance(inner, dict):
            walk(f"{path}[]", inner, seen)


def main():
    seen, failures = {}, []
    with open(sys.argv[1], encoding="ascii") as file:
        for line in file:
            verb, text = line.split("\t", 1)
            for key, value in json.loads(text).items():
                walk(f"{verb}: {key}", value, seen)
    with open(sys.argv[2], encoding="ascii") as file:
        listed = dict(line.rstrip("\n").rsplit(" ", 1) for line in file)
    for path in [path for path, kind in listed.items() if kind == "source"]:
        names, key = path.split(": ")
        for source in pathlib.Path(__file__).resolve().parents[2].glob(names):
            if f'"{key}"' in source.read_text(encoding="utf-8"):
                seen[path] = "source"
    for path in sorted(listed.keys() | seen.keys()):
        was, now = listed.get(path), seen.get(path)
        if not now:
            failures.append(f'"{path}" is gone, or has another name')
        elif not was:
            failures.append(f"this line is missing in {sys.argv[2]}: {path} {now}")
        elif was != now and "null" not in (was, now):
            failures.append(f'"{path}" is now of the type {now}, not {was}')
    print("\n".join(failures))
    return 1 if failures else 0


sys.exit(main())
