import click
import pytest
from click.testing import CliRunner

from contracts.errors import UsageError
from pipeline.cli import options, refusals
from pipeline.cli.main import main
from tests.refusals import check_command


@click.command()
@click.argument("source", metavar="[SOURCE]", required=False)
@options.DATA
@options.SET
@click.option("--min-probability", "-p")
@click.option("--strict", is_flag=True)
@click.option("--pair", nargs=2)
def command(**_):
    """A command."""


@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        ("`min_probability=0.5`", "--min-probability 0.5"),
        ("`min_probability`", "--min-probability"),
        ("`strict=True`", "--strict"),
        ("`pair=A B`", "--pair A B"),
        ("`source`", "SOURCE"),
        ("`data.source=my data`", "--data 'my data'"),
        ("`trainer.epochs=2`", "--set trainer.epochs=2"),
        ("`name=loans`", "--set name=loans"),
        ("`trainer.epochs`", "`trainer.epochs`"),
        ("`versions`", "`versions`"),
        ("`neutral`", "`neutral`"),
    ],
)
def test_names_are_options_of_the_command(reference, shown):
    error = UsageError(advice=f"set {reference}", name="E-x")
    assert refusals.describe(error, command) == f"set {shown} [E-x]"


def test_setting_is_an_option_if_the_command_has_one():
    error = UsageError("data.source", "reviews", "a file", name="E-x")
    assert refusals.describe(error, command) == "--data: reviews; allowed: a file [E-x]"


def test_command_without_settings_has_no_set():
    error = UsageError(advice="use `trainer.epochs=2`", name="E-x")
    without = click.Command("without")
    assert refusals.describe(error, without) == "use trainer.epochs=2 [E-x]"


@pytest.mark.parametrize(
    ("arguments", "message", "name"),
    [
        (["serve", "--port", "x"], "--port: 'x' is not a valid", "E-settings-refused"),
        (["serve", "--portt", "1"], "or --port?", "E-settings-refused"),
        (["prepare-data"], "SOURCE: missing; see ", "E-option-missing"),
        (["completion", "--no"], "--no: no such option; see ", "E-settings-refused"),
        (["serves"], "No such command 'serves'", "E-settings-refused"),
        (["--no"], "--no: no such option; see ", "E-settings-refused"),
    ],
)
def test_errors_of_click_have_the_same_form(arguments, message, name):
    result = CliRunner().invoke(main, arguments, prog_name="bert-pipeline")
    assert result.output.startswith("error: ")
    check_command(result, name, message)
