# SPDX-License-Identifier: BSD-2-Clause
"""Figures that were recorded in a file for each release of a distribution ("debian-12"): lines "# FACT: VALUE" for what they
depend on, and lines "NAME VALUE".
"""

import os
import platform
import re
import sys


def file_of_release(directory):
    release = platform.freedesktop_os_release()
    return f"{directory}/{release.get('ID', 'linux')}-{release.get('VERSION_ID', 'unknown')}"


def read(path):
    """Return the facts and the figures of a file."""
    facts = {}
    figures = {}
    try:
        for line in open(path, encoding="utf-8"):
            match = re.match(r"# ([\w-]+): (.*)", line)
            if match:
                facts[match[1]] = match[2]
            elif not line.startswith("#"):
                name, value = line.split()
                figures[name] = float(value)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    except ValueError:
        sys.exit(f"{path}: a line is not a name and a figure")
    return facts, figures


def write(directory, title, facts, figures):
    os.makedirs(directory, exist_ok=True)
    path = file_of_release(directory)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# {title}\n")
        for name, value in facts.items():
            file.write(f"# {name}: {value}\n")
        for name, value in figures.items():
            file.write(f"{name} {value}\n")
    print(f"{path} is written.")


def comparable(directory, facts, goal):
    """Return the recorded figures. If there are none, or other facts were recorded, say so and return None. GOAL: of make,
    which records them.
    """
    path = file_of_release(directory)
    if not os.path.exists(path):
        print(f"Not judged: there is no {path}. make {goal} makes it.")
        return None
    recorded, figures = read(path)
    others = [f"{name}: recorded with {recorded.get(name) or 'none'}, here is {value or 'none'}"
              for name, value in facts.items() if recorded.get(name) != value]
    if others:
        print("Not judged, for the figures were made otherwise:")
        print("\n".join(f"  {line}" for line in others))
        print(f"make {goal} records them for what is here.")
        return None
    return figures
