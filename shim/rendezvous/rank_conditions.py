"""Which ranks a program treats in a way of their own, by the conditions in its source.

A condition, remainder or look-up in a table in which a rank occurs (`rank % 97 == 5`,
`16 - local_rank % 2`, `batches[rank]`) is evaluated for every rank of the job; other names have the
values that they have where the program calls other ranks. What comes out are ranks of the default
group ("rank"), or places in whatever groups there are where it is not known whose rank is meant
("place"), each with its line.
"""

import ast
import inspect
import itertools
import os
import re
import sys

_RANK_WORD = re.compile(r"(^|_)(rank|procid|localid)($|_)", re.IGNORECASE)
_FUNCTIONS = {"int": int, "abs": abs, "min": min, "max": max, "len": len, "set": set,
              "list": list, "tuple": tuple, "range": range, "bool": bool, "str": str}
_CLASSES = 8             # of an integer: with more it is one for nearly every rank
_ALL_OF = 4              # ranks of a class; of a larger one the first stands for all
_DEPTH = 8               # definitions inside one another
_BYTES = 1 << 21         # of all sources
_EVALUATIONS = 1 << 22   # of all conditions, for one rank each
_CUT = (ast.Mod, ast.FloorDiv, ast.BitAnd, ast.RShift, ast.BitXor)


class _Unknown(Exception):
    pass


class _OwnFile:
    """One source file: what its names are defined as, and what has to be evaluated."""

    def __init__(self, text):
        self.definitions = {}
        self.open = []
        tree = ast.parse(text)
        for node in ast.walk(tree):
            self.see_definition(node)
        self.has_rank = {}
        for node in ast.walk(tree):
            whole = isinstance(node, ast.Compare) or (isinstance(node, ast.BinOp)
                                                      and isinstance(node.op, _CUT))
            looked_up = None if _leaf(node) else _index_of(node)
            if whole and self.depends_on_rank(node, 0) or (
                    looked_up is not None and self.depends_on_rank(looked_up, 0)):
                self.open.append(node)

    def see_definition(self, node):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple):
                values = getattr(node.value, "elts", [None] * len(node.targets[0].elts))
                pairs = zip(node.targets[0].elts, values)
            for target, value in pairs:
                self.define(target, value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            self.define(node.target, node.value)
        elif isinstance(node, (ast.AugAssign, ast.For, ast.comprehension)):
            self.define(node.target, None)
        elif isinstance(node, ast.arg):
            self.definitions.setdefault(node.arg, []).append(None)

    def define(self, target, value):
        if isinstance(target, (ast.Name, ast.Attribute)):
            self.definitions.setdefault(ast.unparse(target), []).append(value)

    def definition(self, node):
        """The one expression that a name stands for everywhere."""
        known = self.definitions.get(ast.unparse(node), [])
        return known[0] if len(known) == 1 else None

    def depends_on_rank(self, node, depth):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) and _leaf(node):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and depth < _DEPTH:
            word = ast.unparse(node)
            if word not in self.has_rank:
                self.has_rank[word] = False  # of a definition by itself
                self.has_rank[word] = any(
                    value is not None and self.depends_on_rank(value, depth + 1)
                    for value in self.definitions.get(word, []))
            if self.has_rank[word]:
                return True
        return any(self.depends_on_rank(child, depth) for child in ast.iter_child_nodes(node))


def _word_of(node):
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _leaf(node):
    """ "rank" for what is the rank in the job, "local" for that in its node, "place" for another one, ""
    for all else.
    """
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
        return "place" if _word_of(node.value.func) == "get_coordinate" else ""
    variable = None  # of the environment
    if isinstance(node, ast.Subscript) and _word_of(node.value) == "environ":
        variable = node.slice
    elif isinstance(node, ast.Call):
        word = _word_of(node.func)
        if word in ("get", "getenv") and node.args:
            variable = node.args[0]
        elif word == "get_rank":
            return "place" if node.args or node.keywords else "rank"
        else:
            return "place" if _RANK_WORD.search(word) or (word == "rank") else ""
    if variable is not None:
        name = getattr(variable, "value", "")
        is_rank = isinstance(name, str) and _RANK_WORD.search(name) and "SIZE" not in name
        return {"RANK": "rank", "LOCAL_RANK": "local"}.get(name, "place") if is_rank else ""
    return "place" if _RANK_WORD.search(_word_of(node)) else ""


def _index_of(node):
    """What `table[index]` or `table.get(index)` asks for."""
    if isinstance(node, ast.Subscript):
        return node.slice
    is_get = (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute)
              and node.func.attr == "get")
    return node.args[0] if is_get else None


class _Resolver(ast.NodeTransformer):
    """An expression of constants, tables and one name, the rank's."""

    def __init__(self, file, names, world):
        self.file, self.names, self.world = file, names, world
        self.kinds = set()
        self.tables = {}  # by the name that the expression has for each
        self.depth = 0

    def rank(self, kind):
        self.kinds.add(kind)
        return ast.Name(_NAME, ast.Load())

    def visit(self, node):
        if isinstance(node, (ast.Compare, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.operator,
                             ast.unaryop, ast.cmpop, ast.boolop, ast.Tuple, ast.List, ast.Set,
                             ast.IfExp)):
            return self.generic_visit(node)
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.expr_context):
            return node
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.visit_named(node)
        kind = _leaf(node)
        if kind:
            rank = self.rank(kind)
            is_text = _word_of(getattr(node, "func", getattr(node, "value", node))) in (
                "environ", "get", "getenv")
            return ast.Call(ast.Name("str", ast.Load()), [rank], []) if is_text else rank
        if isinstance(node, ast.Call):
            return self.visit_call(node)
        if isinstance(node, ast.Subscript) and _word_of(node.value) == "environ":
            return self.visit_variable(node.slice)
        if isinstance(node, ast.Subscript):
            table = self.visit_table(node.value)
            return ast.Subscript(table, self.visit(node.slice), ast.Load())
        raise _Unknown()

    def visit_call(self, node):
        word = _word_of(node.func)
        if word == "get_world_size" and not node.args and not node.keywords:
            return ast.Constant(self.world)
        if word == "get" and isinstance(node.func, ast.Attribute) and _word_of(
                node.func.value) != "environ":
            table = ast.Attribute(self.visit_table(node.func.value), "get", ast.Load())
            return ast.Call(table, [self.visit(each) for each in node.args], [])
        if word in ("get", "getenv") and node.args:
            return self.visit_variable(node.args[0])
        if isinstance(node.func, ast.Name) and word in _FUNCTIONS and not node.keywords:
            return ast.Call(node.func, [self.visit(each) for each in node.args], [])
        raise _Unknown()

    def visit_table(self, node):
        """Of plain values, which nothing of the program's is run to look up."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or self.file.depends_on_rank(node, 0):
            return self.visit(node)
        value = self.value_of(node)
        if type(value) not in (list, tuple, dict) or len(value) > 1 << 16 or not all(
                isinstance(each, _PLAIN) for each in
                (itertools.chain(value, value.values()) if type(value) is dict else value)):
            raise _Unknown()
        name = f"_prism_table_{len(self.tables)}"
        self.tables[name] = value
        return ast.Name(name, ast.Load())

    def visit_variable(self, node):
        value = os.environ.get(getattr(node, "value", None) or "")
        if value is None:
            raise _Unknown()
        return ast.Constant(value)

    def visit_named(self, node):
        definition = self.file.definition(node)
        if definition is not None and self.depth < _DEPTH and self.file.depends_on_rank(node, 0):
            self.depth += 1
            try:
                return self.visit(definition)
            except _Unknown:
                pass
            finally:
                self.depth -= 1
        if self.file.depends_on_rank(node, 0):
            if _leaf(node):
                return self.rank("place")
            raise _Unknown()
        value = self.value_of(node)
        if isinstance(value, _PLAIN):
            return ast.Constant(value)
        if isinstance(value, (list, tuple, set, range)) and len(value) <= 1 << 16 and all(
                isinstance(each, int) for each in value):
            elements = [ast.Constant(each) for each in value]
            return ast.List(elements, ast.Load())
        raise _Unknown()

    def value_of(self, node):
        """Without running anything of the program's."""
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return self.names[node.id]
            if isinstance(self.file.definition(node), ast.Constant):
                return self.file.definition(node).value
            raise _Unknown()
        if isinstance(node, ast.Attribute):
            kept = getattr(self.value_of(node.value), "__dict__", {})
            if node.attr in kept:
                return kept[node.attr]
        raise _Unknown()


_NAME = "_prism_rank"
_PLAIN = (int, str, float, bool, type(None))


def _classes_of(node, tables, world):
    """Its values, and ranks that give each. A table may be of the ranks of a node or group only; one
    that has another value for each rank says no more than the rank.
    """
    function = ast.Lambda(ast.arguments([], [ast.arg(_NAME)], None, [], [], None, []), node)
    code = compile(ast.fix_missing_locations(ast.Expression(function)), "<condition>", "eval")
    of_rank = eval(code, {"__builtins__": {}, **_FUNCTIONS, **tables})
    classes = {}
    for rank in range(world):
        try:
            members = classes.setdefault(of_rank(rank), [])
        except (IndexError, KeyError):
            if not tables:
                raise
            continue
        if len(members) <= _ALL_OF:
            members.append(rank)
        if len(classes) > _CLASSES:
            return {}
    if tables and all(len(members) == 1 for members in classes.values()):
        return {}
    return classes


class RankConditions:
    """`tell(kind, rank, file, line)` is called for each rank that is found, once."""

    def __init__(self, world, is_own, tell):
        self.world, self.is_own, self.tell = world, is_own, tell
        self.files = {}
        self.seen_places = set()
        self.modules = 0
        self.bytes_left = _BYTES
        self.evaluations_left = _EVALUATIONS
        self.told = set()

    def see(self, frame):
        """The program calls other ranks from here."""
        self.see_modules()
        while frame is not None:
            code = frame.f_code
            place = code, frame.f_lineno  # names get their values on the way
            if place not in self.seen_places and self.is_own(code.co_filename):
                self.seen_places.add(place)
                self.see_file(code.co_filename)
                self.evaluate(code.co_filename, {**frame.f_globals, **_locals_of(frame)})
            frame = frame.f_back

    def see_modules(self):
        if len(sys.modules) == self.modules:
            return
        self.modules = len(sys.modules)
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None)
            if isinstance(name, str) and name.endswith(".py") and self.is_own(name):
                if self.see_file(name):
                    self.evaluate(name, vars(module))

    def see_file(self, name):
        if name in self.files:
            return False
        self.files[name] = None
        try:
            self.bytes_left -= os.path.getsize(name)
            if self.bytes_left >= 0:
                with open(name, encoding="utf-8") as file:
                    self.files[name] = _OwnFile(file.read())
        except (OSError, SyntaxError, ValueError, RecursionError):
            pass
        return self.files[name] is not None

    def evaluate(self, name, names):
        file = self.files.get(name)
        if file is None or self.evaluations_left < self.world:
            return
        still_open = []
        for node in file.open:
            resolver = _Resolver(file, names, self.world)
            try:
                expression = resolver.visit(_copy(node))
                self.evaluations_left -= self.world
                # The first node's ranks in the job are those in it.
                is_local = resolver.kinds == {"local"}
                size = int(os.environ.get("LOCAL_WORLD_SIZE", self.world)) if is_local else self.world
                classes = _classes_of(expression, resolver.tables, size)
            except Exception:  # a name without a value yet, or one of another type
                still_open.append(node)
                continue
            kind = "rank" if resolver.kinds in ({"rank"}, {"local"}) else "place"
            for ranks in classes.values():
                for rank in ranks if len(ranks) <= _ALL_OF and not is_local else ranks[:1]:
                    if (kind, rank) not in self.told:
                        self.told.add((kind, rank))
                        self.tell(kind, rank, name, node.lineno)
        file.open = still_open


def _locals_of(frame):
    """Before 3.13 a function's frame keeps what it was asked for, tensors too, until it ends."""
    names = dict(frame.f_locals)
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.version_info < (3, 13):
        frame.f_locals.clear()
    return names


def _copy(node):
    return ast.parse(ast.unparse(node), mode="eval").body
