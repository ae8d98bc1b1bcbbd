"""``python -m dispatchcov`` is the command ``dispatchcov``."""

import sys

from dispatchcov.cli import main

if __name__ == "__main__":
    sys.exit(main())
