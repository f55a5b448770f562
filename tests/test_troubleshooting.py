"""Each error that a user can fix has a stable name, which docs/troubleshooting/ has."""

import ast
import dataclasses
import inspect
import re
from collections import Counter, defaultdict

import pytest

from contracts.errors import UsageError
from contracts.fingerprint import FIRST_PARTY
from modules.data import judgment, leaked_labels, slice_judgment
from pipeline.config.paths import REPOSITORY

PAGES = REPOSITORY / "docs" / "troubleshooting"
NAME = re.compile(r"E(-[a-z0-9]+){1,6}")
# serving does not import contracts.errors; its own error takes the same arguments.
NAMED = {"named", UsageError.__name__, "SettingsError"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of a page."""

    page: str
    name: str
    text: str

    @property
    def example(self) -> str:
        (example,) = re.findall(r"^```\w*\n(.*?)\n```$", self.text, re.M | re.S)
        return example


def to_pattern(node):
    """Returns a regular expression for the texts of an expression; None if unknown."""
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(to_pattern(part) or ".*" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{to_pattern(left) or '.*'}{to_pattern(right) or '.*'}"
    return None


def find_messages():
    """Returns the calls that give a message its name, and patterns of each name."""
    trees = {
        path.relative_to(REPOSITORY): ast.parse(path.read_text())
        for package in (*FIRST_PARTY, "serving")
        for path in sorted((REPOSITORY / package).rglob("*.py"))
    }
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    functions = set(NAMED)
    while True:  # classes of classes
        found = {
            node.name
            for _, node in nodes
            if isinstance(node, ast.ClassDef)
            and any(ast.unparse(b).rpartition(".")[2] in functions for b in node.bases)
        }
        if found <= functions:
            break
        functions |= found
    calls, patterns = [], defaultdict(list)
    for path, node in nodes:
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:  # of a message that gets its rows later
            value = getattr(keyword.value, "value", None)
            if keyword.arg == "name" and NAME.fullmatch(str(value)):
                patterns[value].append(None)
        if ast.unparse(node.func).rpartition(".")[2] not in functions:
            continue
        name = node.args[1] if len(node.args) > 1 else None
        calls.append((f"{path}:{node.lineno}", name))
        if isinstance(name, ast.Constant):
            patterns[name.value].append(to_pattern(node.args[0]))
    return calls, patterns


def find_refused_kinds():
    """Returns the names of findings that stop a run, made of their kinds."""
    modules = (judgment, leaked_labels, slice_judgment)
    kinds = {judgment.NO_CLASS}  # in a loop, with that of one class
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding":
                is_refused = len(node.args) > 3 or any(
                    keyword.arg == "is_refused" for keyword in node.keywords
                )
                kind = getattr(module, ast.unparse(node.args[0]), None)
                kinds |= {kind} if is_refused and kind else set()
    return {f"E-{kind.replace(' ', '-')}" for kind in kinds}


CALLS, PATTERNS = find_messages()
PATTERNS |= {name: [None] for name in find_refused_kinds()}
ENTRIES = [
    Entry(page.stem, name, text)
    for page in sorted(PAGES.glob("*.md"))
    for name, text in re.findall(
        r"^### (E-\S+)\n(.*?)(?=^#{1,3} |\Z)", page.read_text(), re.M | re.S
    )
]


@pytest.mark.parametrize(("place", "name"), CALLS, ids=[place for place, _ in CALLS])
def test_message_has_a_stable_name_where_it_is_made(place, name):
    if isinstance(name, ast.Attribute):  # of the error that it quotes
        assert name.attr == "name"
    elif not isinstance(name, ast.Name) or name.id != "name":  # of a caller's literal
        assert isinstance(name, ast.Constant), place
        assert NAME.fullmatch(name.value)


def test_each_name_is_explained_once_and_no_other_name_is():
    assert Counter(entry.name for entry in ENTRIES) == Counter(PATTERNS.keys())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_explanation_has_meaning_example_and_advice(entry):
    meaning, example, advice = re.split(r"\*\*Example\*\*|\*\*Do:\*\*", entry.text)
    assert meaning.strip()
    assert example.strip()
    assert advice.strip()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_example_is_a_message_of_the_code(entry):
    message, _, ending = entry.example.rpartition(" ")
    assert ending == f"[{entry.name}]"
    patterns = PATTERNS[entry.name]
    assert None in patterns or any(
        re.fullmatch(pattern, message, re.S) for pattern in patterns
    )
