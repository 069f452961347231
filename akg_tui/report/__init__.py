"""A run's `report.html`, `report.md` and `report.json`, from journal and history alone.

`gather` reads a run into a `Report`, the value stored in `report.json`; the HTML page and the
Markdown show that value. It writes only these files, and runs in a separate process (`python -m
akg_tui.report RUN`), because drawing a chart loads a plotting library.
"""
