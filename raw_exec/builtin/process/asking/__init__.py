"""What ``process`` does: it asks the supervisor, which owns the jobs, and shows the answer.

``request`` is pure; the supervisor runs it before a call is approved.
"""
