"""`bert-runtime` with models that need no library, as a program."""

import sys
import types

from bert_runtime.cli.main import main
from tests.serving import plain_models

if __name__ == "__main__":
    module = types.ModuleType("bert_runtime.served_model")
    module.load = lambda directory, version, **_: plain_models.load(directory, version)
    sys.modules[module.__name__] = module
    import bert_runtime

    bert_runtime.served_model = module
    main()
