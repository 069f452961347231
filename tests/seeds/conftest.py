from tests.in_memory import tmp_path  # noqa: F401
