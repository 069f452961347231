"""`python -m akg_tui` is `akg-tui`."""

import sys

from akg_tui.cli import main

sys.exit(main())
