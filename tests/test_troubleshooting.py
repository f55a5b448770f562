"""Each error that a user can fix has a stable name, which docs/troubleshooting/ has."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections import Counter, defaultdict

import pytest

from components.model_checks.checks import slices
from contracts.errors import UsageError
from contracts.fingerprint import FIRST_PARTY
from contracts.records.checks import CheckResult
from modules.data import judgment, leaked_labels, slice_judgment
from pipeline.config.paths import REPOSITORY

PAGES = REPOSITORY / "docs" / "troubleshooting"
NAME = re.compile(r"E(-[a-z0-9]+){1,6}")
MOST_NAMES = 80
NAMED = {"named", UsageError.__name__}
FIELDS = ("setting", "got", "allowed", "advice")
REFERENCE = re.compile(r"`[a-z][\w.]*(=[^`]*)?`")


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of a page."""

    page: str
    name: str
    text: str

    @property
    def example(self) -> str:
        (example,) = re.findall(r"^(?: {4}.*\n)+", self.text, re.M)
        return textwrap.dedent(example).rstrip("\n")

    @property
    def former(self) -> list[str]:
        """The names of 1.0.0 whose messages have this name now."""
        lists = re.findall(r"^Before 2\.0\.0: (.*?)\.$", self.text, re.M | re.S)
        return re.findall(r"`(E-[^`]+)`", " ".join(lists))


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


def to_message(call, parameters):
    """Returns a regular expression for the message of an error; None if unknown."""
    fields = dict(zip(parameters, call.args, strict=False))
    fields |= {keyword.arg: keyword.value for keyword in call.keywords}
    if None in fields:
        return None  # some fields are a dictionary
    got = to_pattern(fields["got"]) or ".*" if "got" in fields else None
    # On the command line, the setting is the name of an option.
    pattern = ": ".join(filter(None, [".*" if "setting" in fields else None, got]))
    for field, label in (("allowed", "allowed: "), ("advice", "")):
        if field in fields:
            text = to_pattern(fields[field])
            part = f"(?:; |\n){label}{text or '.*'}" if pattern else text or ".*"
            pattern += part if text else f"(?:{part})?"  # a variable may be None
    return re.sub("`[^`]*`", ".*", pattern)  # references to options


def find_constructor(definition):
    """Returns the parameters of an error's class, and the name that it always has."""
    for method in ast.walk(definition):
        if getattr(method, "name", None) != "__init__":
            continue
        for call in ast.walk(method):
            match call:
                case ast.Call(
                    func=ast.Attribute(attr="__init__"),
                    keywords=[
                        *_,
                        ast.keyword("name", ast.Constant() as name),
                    ],
                ):
                    return [argument.arg for argument in method.args.args[1:]], name
    return FIELDS, None


def find_messages():
    """Returns the calls that give a message its name, and patterns of each name."""
    trees = {
        path.relative_to(REPOSITORY): ast.parse(path.read_text())
        for package in (*FIRST_PARTY, "bert_runtime", "serving")
        for path in sorted((REPOSITORY / package).rglob("*.py"))
    }
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    errors = {UsageError.__name__: (FIELDS, None)}
    while True:  # classes of classes
        found = {
            node.name: find_constructor(node)
            for _, node in nodes
            if isinstance(node, ast.ClassDef)
            and any(ast.unparse(b).rpartition(".")[2] in errors for b in node.bases)
        }
        if found.keys() <= errors.keys():
            break
        errors |= found
    calls, patterns = [], defaultdict(list)
    for path, node in nodes:
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func).rpartition(".")[2]
        names = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
        parameters, name = errors.get(function, (FIELDS, None))
        if names:
            name = names[0]
        if function == "named":
            name = node.args[1]
        elif function == "CheckResult":
            name = next((k.value for k in node.keywords if k.arg == "error"), None)
        if function in errors or function == "named":
            calls.append((f"{path}:{node.lineno}", name))
        is_name = isinstance(name, ast.Constant) and NAME.fullmatch(str(name.value))
        if is_name and function != "__init__":  # of a class, whose calls have it
            message = None  # it gets its rows later
            if function in errors:
                message = to_message(node, parameters)
            elif function == "named":
                message = to_pattern(node.args[0])
            patterns[name.value].append(message)
    return calls, patterns


def find_refused_kinds():
    """Returns the names of findings that stop a run, made of their kinds."""
    modules = (judgment, leaked_labels, slice_judgment, slices)
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
PATTERNS[CheckResult.model_fields["error"].default] = [None]
ENTRIES = [
    Entry(page.stem, name, text)
    for page in sorted(PAGES.glob("*.md"))
    for name, text in re.findall(
        r"^### (E-\S+)\n(.*?)(?=^#{1,3} |\Z)", page.read_text(), re.M | re.S
    )
]


@pytest.mark.parametrize(("place", "name"), CALLS, ids=[place for place, _ in CALLS])
def test_message_has_a_stable_name_where_it_is_made(place, name):
    if isinstance(name, ast.Attribute):  # of the error or result that it quotes
        assert name.attr in ("name", "error")
    elif not isinstance(name, ast.Name) or name.id != "name":  # of a caller's literal
        assert isinstance(name, ast.Constant), place
        assert NAME.fullmatch(name.value)


def test_there_are_few_names():
    assert len(ENTRIES) <= MOST_NAMES


def test_former_names_are_explained_once():
    names = [name for entry in ENTRIES for name in entry.former]
    assert len(names) == len({*names, *(entry.name for entry in ENTRIES)}) - len(
        ENTRIES
    )


def test_each_name_is_explained_once_and_no_other_name_is():
    assert Counter(entry.name for entry in ENTRIES) == Counter(PATTERNS.keys())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_explanation_has_meaning_example_and_advice(entry):
    text = entry.text.partition("Before 2.0.0:")[0]
    text, advice = text.split("**Do:**")
    meaning, _, after = text.partition("\n    ")
    assert meaning.strip()
    assert entry.example
    assert after.endswith(f"[{entry.name}]\n\n")
    assert advice.strip()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_example_is_a_message_of_the_code(entry):
    message, _, ending = entry.example.rpartition(" ")
    assert ending == f"[{entry.name}]"
    patterns = PATTERNS[entry.name]
    assert None in patterns or any(
        re.fullmatch(pattern, message, re.S) for pattern in patterns
    )
