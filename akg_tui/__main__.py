"""Makes `python -m akg_tui` run `akg-tui`."""

import sys

from akg_tui.cli import main

sys.exit(main())
