"""Ops that only rewritten traces hold: passes of ``compile/`` put them there, no user."""
