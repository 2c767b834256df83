"""What ``write_file`` does: one parse of the arguments, the effects of it, and the writing.

``request`` and what it imports are pure; the supervisor runs them before a call is approved.
``patching``, ``operating`` and ``run`` touch files; they run in the worker only.
Standard library only: in the worker there is nothing else.
"""
