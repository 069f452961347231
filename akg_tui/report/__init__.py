"""A run's `report.html`, `report.md` and `report.json`, from journal and history alone.

`gather` reads a run into a `Report`, the value that `report.json` is; the page and the
Markdown show that value. It writes nothing but these files, and runs in a process of its
own (`python -m akg_tui.report RUN`), because drawing a chart loads a plotting library.
"""
