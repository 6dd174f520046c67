"""The tape and the walk back along it; :mod:`clnet.autograd` is its public face."""
