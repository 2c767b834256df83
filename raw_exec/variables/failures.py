"""The one error of this package. Its code is the class of failure.

Security: a message names the variable, the class, and what the configuration says. It never
holds a value, nor anything that a provider printed.
"""

from __future__ import annotations

from typing import Final

from ..errors import RawExecError

__all__ = ["FAILURE_CLASSES", "VariableError"]

FAILURE_CLASSES: Final = {
    # asked for something that may not be had
    "not_selected": "the agent does not select this variable, whether it exists or not",
    "access_denied": "the variable may be referenced in env_refs, and not read",
    "env_refs_invalid": "the references are not an object of environment names to variables",
    "request_invalid": "a handler's request has other fields than the contract's",
    # any source
    "source_missing": "the environment variable or file does not exist",
    "source_unreadable": "the file can't be read, or is not a regular file",
    "file_too_large": "the file is over 65536 bytes",
    "not_utf8": "the bytes are not UTF-8",
    "invalid_json": "the text is not strict JSON",
    "wrong_type": "the value is not of the declared type",
    "not_scalar": "the value can't be an environment variable: not a text, number or boolean",
    "contains_nul": "the value can't be an environment variable: it contains NUL",
    # providers
    "params_refused": "the provider does not take these params",
    "request_too_large": "the request to the provider is over 65536 bytes",
    "program_missing": "there is no such program",
    "program_not_executable": "the file is not executable",
    "interpreter_missing": "a script's interpreter can't be used",
    "program_refused": "the kernel will not start the program",
    "sandbox_unavailable": "the provider's sandbox can't be enforced here",
    "launcher_lost": "the process that starts providers ended",
    "timeout": "the provider was still running at its limit",
    "aborted": "nobody waits for the value any more, or the runtime is closing",
    "output_limit": "the provider printed more than its limit",
    "nonzero_exit": "the provider exited with another status than 0",
    "killed": "a signal ended the provider",
    "no_output": "the provider printed nothing",
    "extra_output": "something follows the one JSON value",
    "not_an_object": "the provider's answer is not a JSON object",
    "unknown_field": "the answer has other fields than value and observed_at",
    "missing_value": "the answer has no value",
    "wrong_observed_at": "observed_at is not a UTC time with at most milliseconds",
}
"""Class of failure to what it means."""


class VariableError(RawExecError):
    """A variable could not be listed, read or referenced.

    Args:
        code: One of ``FAILURE_CLASSES``.
        variable: Its name, when it is about one.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        variable: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.variable = variable

    def again(self) -> VariableError:
        """Return an equal error for another waiter: a raised one carries its traceback."""
        return VariableError(self.code, self.message, variable=self.variable, hint=self.hint)
