"""The launcher: one small, single-threaded process that starts and kills workers.

It imports the standard library only and meets the supervisor on a socket
(``protocol.py``). One kernel mechanism a file; ``child.py`` orders them.
"""
