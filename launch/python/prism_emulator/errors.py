"""What can go wrong, one exception for each exit code of the programs."""


class PrismError(Exception):
    """A program of Prism failed; `exit_code` is what it ended with."""

    exit_code = 1


class JobError(PrismError):
    """The job or its program failed."""


class UsageError(PrismError):
    """An option or value that does not exist or does not fit the others."""

    exit_code = 2


class FileError(PrismError):
    """A named file cannot be used."""

    exit_code = 3


class GateError(PrismError):
    """A condition on the answer is not met: `strict`, `max_error`."""

    exit_code = 4


class MissingError(PrismError):
    """The environment lacks something; the message names it."""

    exit_code = 5


_KINDS = {kind.exit_code: kind
          for kind in (JobError, UsageError, FileError, GateError, MissingError)}


def error_of(exit_code: int, text: str) -> PrismError:
    """The exception for a program that ended with that code after saying `text`."""
    error = _KINDS.get(exit_code, PrismError)(text)
    error.exit_code = exit_code
    return error
