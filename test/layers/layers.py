#!/usr/bin/env python3
"""layers.py - calls go one way between the groups of src, and circles inside a group are known

    layers.py SOURCE-DIR BUILD-DIR TABLE [--arrows GROUP]

Reads the symbols of all objects below BUILD-DIR/src with nm. TABLE says which groups there are, from
top to bottom (its head explains the form). It is an error

- that a group takes a symbol from a group that stands above it, or beside it and is not allowed;
- that files of one group call each other in a circle that the table does not name, or in one of more
  than CIRCLE_MAX files;
  "debt" before an arrow or a circle in the table lets one of these stand until it is taken apart;
- that two files have one name; that a file has more than FILE_MAX lines, a function more than FUNCTION_MAX, or the
  comment at the top of a file more than HEAD_MAX lines of prose (a table does not count);
- that a file of the libraries takes exit(): out of memory uthash would call it, but for HASH_NONFATAL_OOM;
- that the table names a file, an arrow or a circle that does not exist: it must stay as short as the
  truth.

Names that libc has are no arrows, nor are those that the table calls foreign: the wrapper and src/boot
define some in order to be called in place of a library's. --arrows prints what the files of a group take from each other, for who wants to
take a circle apart.
"""
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

CIRCLE_MAX = 6
FILE_MAX, FUNCTION_MAX, HEAD_MAX = 600, 80, 12


def symbols(path, *options):
    """(kind, name) of each symbol of an object or library."""
    out = subprocess.run(["nm", "-P", *options, path], check=True, capture_output=True, text=True)
    for line in out.stdout.splitlines():
        name, kind = line.split()[:2]
        yield kind, name.split("@")[0]


def libc_names():
    with open("/proc/self/maps") as maps:
        libc = next(word for line in maps for word in line.split()
                    if re.search(r"/libc[.-][^/]*so[^/]*$", word))
    return {name for _, name in symbols(libc, "-D", "--defined-only")}


def objects(build, sources):
    """Source file below src -> object; not what an earlier build has left."""
    top = pathlib.Path(build, "src")
    found = {}
    for path in top.rglob("*.c.o"):
        source = re.sub(r"CMakeFiles/[^/]+\.dir/", "", str(path.relative_to(top)))[:-len(".o")]
        if pathlib.Path(sources, source).exists():
            found[source] = path
    return found


class Table:
    def __init__(self, path):
        self.rows, self.beside, self.circles = [], set(), []  # rows: lists of groups, top first
        self.foreign, self.large = [], []  # patterns of names; circles
        for number, line in enumerate(open(path), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            debt = words[0] == "debt"
            words = words[debt:]
            if words[0] == "circle":
                names, _, reason = line.split("#")[0].split("circle", 1)[1].partition(":")
                if not reason.strip():
                    sys.exit(f"{path}:{number}: a circle needs a reason")
                self.circles.append(frozenset(names.split()))
                self.large += [self.circles[-1]] if debt else []
            elif words[0] == "foreign":
                self.foreign += words[1:]
            elif "->" in words:
                self.beside.add((words[0], words[2]))
            else:
                self.rows.append(words)
        self.groups = [group for row in self.rows for group in row]
        self.level = {group: n for n, row in enumerate(self.rows) for group in row}

    def group_of(self, source):
        """The longest that is a folder above the source, or the source without its ending."""
        matches = [group for group in self.groups
                   if source.startswith(group + "/") or source == group + ".c"]
        return max(matches, key=len) if matches else None

    def allows(self, user, used):
        return self.level[user] < self.level[used] or (user, used) in self.beside


def arrows_of(found, patterns):
    """(user, used) -> names, between source files; source file -> all names that it takes."""
    libc, defined, taken = libc_names(), {}, collections.defaultdict(set)

    def is_foreign(name):
        return name in libc or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    for source, path in found.items():
        for kind, name in symbols(path):
            if kind == "U":
                taken[source].add(name)
            elif kind.isupper() and not is_foreign(name):
                defined[name] = source
    arrows = collections.defaultdict(set)
    for source, names in taken.items():
        for name in names:
            if defined.get(name, source) != source:
                arrows[source, defined[name]].add(name)
    return arrows, taken


def circles_of(edges):
    """Strongly connected components of more than one file (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(frozenset(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def too_long(path):
    """What of a source file is: one line each."""
    text = path.read_text()
    lines, start = text.split("\n"), None
    if len(lines) > FILE_MAX:
        yield f"{path} has {len(lines)} lines, more than {FILE_MAX}"
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start + 1 > FUNCTION_MAX:
                yield f"{path}:{start}: a function of {number - start + 1} lines, more than {FUNCTION_MAX}"
            start = None
    head = re.match(r"/\*\n(.*?)\n \*/", text, re.DOTALL)
    prose = [line for line in head[1].split("\n") if re.match(r" \* \S", line) and "  " not in line[3:]] if head else []
    if not text.startswith("/*"):
        yield f"{path} has no comment at its top"
    if len(prose) > HEAD_MAX:
        yield f"{path}: {len(prose)} lines of prose at its top, more than {HEAD_MAX}: put the rest where the code is"


def main():
    sys.setrecursionlimit(10000)
    sources, build, table_path = sys.argv[1:4]
    table, found, errors = Table(table_path), objects(build, pathlib.Path(sources, "src")), []
    group = {source: table.group_of(source) for source in found}
    named = collections.Counter(path.name for path in pathlib.Path(sources, "src").rglob("*.[ch]"))
    errors += [line for part in ("src", "tools", "include") for path in sorted(pathlib.Path(sources, part).rglob("*.[ch]"))
               for line in too_long(path)]
    errors += [f"{count} files are called {name}" for name, count in sorted(named.items()) if count > 1]
    errors += [f"{source} is in no group of the table" for source in sorted(found) if not group[source]]
    errors += [f"the table names {name}, which has no source file" for name in table.groups
               if name not in group.values()]
    arrows, taken = arrows_of(found, table.foreign)
    errors += [f"{source} takes exit()" for source, names in sorted(taken.items()) if "exit" in names]
    if len(arrows) < len(found):
        errors.append(f"only {len(arrows)} arrows between {len(found)} files: the objects were not understood")

    inside, used = collections.defaultdict(lambda: collections.defaultdict(set)), set()
    for (user, source), names in sorted(arrows.items()):
        a, b = group[user], group[source]
        if not a or not b:
            continue
        used.add((a, b))
        if a == b:
            inside[a][user].add(source)
        elif not table.allows(a, b):
            errors.append(f"{a} is not above {b}: {user} takes {', '.join(sorted(names))} from {source}")
    errors += [f"the table allows {a} -> {b}, which nothing needs" for a, b in sorted(table.beside - used)]
    if sys.argv[4:5] == ["--arrows"]:
        for user, sources in sorted(inside[sys.argv[5]].items()):
            for source in sorted(sources):
                print(user, "->", source, *sorted(arrows[user, source]))
        return 0

    circles = [circle for edges in inside.values() for circle in circles_of(edges)]
    for circle in circles:
        names = " ".join(sorted(circle))
        if len(circle) > CIRCLE_MAX and circle not in table.large:
            errors.append(f"a circle of {len(circle)} files: {names}")
        elif circle not in table.circles:
            errors.append(f"a circle that the table does not name: {names}")
    errors += [f"no such circle any more: {' '.join(sorted(circle))}"
               for circle in table.circles if circle not in circles]

    for line in errors:
        print(line)
    print(f"{len(found)} files, {len(arrows)} arrows, {len(circles)} circles, {len(errors)} errors")
    return 1 if errors else 0


sys.exit(main())
