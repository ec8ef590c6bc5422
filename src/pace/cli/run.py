"""`pace run`."""


def run() -> None:
    """Run a whole federation in this process."""
