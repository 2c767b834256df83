"""What ``read_file`` does. Standard library only: in the worker there is nothing else.

``request`` is pure; the supervisor runs it before a call is approved.
"""
