"""The command line: parse, call one function, print.

Rules:

1. Data goes to standard output, with ``--json`` exactly one JSON value; everything else goes
   to standard error.
2. Nothing heavy is imported until a command needs it, so ``raw --help`` is quick.
3. A user's mistake is one ``error:`` line with a hint and an exit status of
   ``raw_exec.cli.failures``, never a traceback.
"""
