"""Progress for people, everything else for the log."""

import logging
import os
import subprocess
import sys

from pipeline.local import run


def test_what_python_and_c_print_goes_to_the_log(tmp_path, capfd):
    log = tmp_path / "run.log"
    with run.redirect_output(log):
        os.write(1, b"from C, out\n")
        os.write(2, b"from C, err\n")
        logging.getLogger("absl").warning("from logging")
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"
    text = log.read_text()
    for line in ("from C, out", "from C, err", "from logging"):
        assert line in text


def test_components_and_training_steps_are_shown(console):
    status = console.status("")
    absl, modules = (
        logging.getLogger("absl"),
        logging.getLogger("modules.training.run_fn"),
    )
    with run.ProgressHandler(console, status).attached():
        absl.info("Component %s is running.", "Trainer")
        modules.info("step %d/%d", 1, 2)
        absl.info("something else")
        absl.info("Component %s is finished.", "Trainer")
    absl.info("Component %s is running.", "Later")
    lines = console.file.getvalue().splitlines()
    assert lines[0].strip() == "step 1/2"
    assert lines[1].startswith("✓ Trainer 0.0 s")
    assert len(lines) == 2


def test_help_imports_neither_tensorflow_nor_tfx():
    program = (
        "import sys\nfrom pipeline.cli.main import main\n"
        "try:\n    main(['run', '--help'])\n"
        "except SystemExit:\n    pass\n"
        "print([m for m in ('tensorflow', 'tfx', 'apache_beam') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "--config" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "[]"
