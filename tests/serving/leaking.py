"""Commands of the pipeline, in a process that leaks memory at each change of version.

python -m tests.serving.leaking serve --model DIR
"""

from pipeline.cli.main import main
from serving.loaded_versions import LoadedVersions

LEAK_BYTES = 200 << 20

if __name__ == "__main__":
    leaked, unload = [], LoadedVersions._unload

    def leak(*arguments):
        leaked.append(bytes([1]) * LEAK_BYTES)
        unload(*arguments)

    LoadedVersions._unload = leak
    main()
