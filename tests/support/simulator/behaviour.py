"""What the product does while a schedule is played: a search looks for what is new.

Branches record themselves: tracing would more than double the time of a schedule.
"""

import ast
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType

Behaviour = frozenset[object]
"""The branches that a run took."""

PACKAGES = tuple(f"hanse.{package}." for package in ("runtime", "kube", "features", "dns"))
TAKEN = "__branches_taken__"
"""The global of an instrumented module: whether each of its branches was taken."""

_taken: dict[str, list[bool]] = {}


def instrument() -> None:
    """Have the functions of the product record the branches that they take, in this process.

    Calls that run already go on as they are.
    """
    codes: dict[tuple[str, str, int], CodeType] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGES) and name not in _taken and module.__file__:
            probed = Probed(Path(module.__file__).read_text(), module.__file__)
            _taken[name] = vars(module)[TAKEN] = probed.taken
            codes |= {_place(code): code for code in _functions(probed.code)}
    gc.unfreeze()  # what is frozen is not found
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and (code := codes.get(_place(found.__code__))):
            found.__code__ = code


@contextmanager
def observed() -> Iterator[Callable[[], Behaviour]]:
    """Observe which branches the product takes in a block, where it is instrumented."""
    for taken in _taken.values():
        taken[:] = [False] * len(taken)
    yield lambda: frozenset(
        (name, number)
        for name, taken in _taken.items()
        for number, was_taken in enumerate(taken)
        if was_taken
    )


class Probed(ast.NodeTransformer):
    """A module whose functions set an element of `taken` at the start of every branch."""

    def __init__(self, source: str, path: str) -> None:
        self.taken: list[bool] = []
        self.code: CodeType = compile(
            self.visit(ast.parse(source)), path, "exec", dont_inherit=True
        )

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._either(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._either(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._either(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return self._either(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        self._mark(node.body)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        self.generic_visit(node)
        self._mark(node.body)
        return node

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        self._mark(node.body, 0 if ast.get_docstring(node, clean=False) is None else 1)
        return node

    def _either(self, node: ast.If | ast.While | ast.For | ast.AsyncFor) -> ast.AST:
        """A condition that holds or does not, or a loop that is entered and that ends."""
        self.generic_visit(node)
        self._mark(node.body)
        node.orelse.insert(0, self._probe(node.body[0]))
        return node

    def _mark(self, body: list[ast.stmt], at: int = 0) -> None:
        body.insert(at, self._probe(body[0]))

    def _probe(self, beside: ast.stmt) -> ast.stmt:
        number = len(self.taken)
        self.taken.append(False)
        probe = ast.parse(f"{TAKEN}[{number}] = True").body[0]
        for node in ast.walk(probe):
            ast.copy_location(node, beside)
        return probe


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The code of all functions in a module; lambdas and comprehensions have no statements."""
    for found in code.co_consts:
        if isinstance(found, CodeType):
            if not found.co_name.startswith("<"):
                yield found
            yield from _functions(found)


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno
