"""Drop-in adapters: the names of other libraries, on jaxrank's core.

Each module keeps its original's names, argument order, defaults, return types and documented
behaviour, and never needs the original installed. `docs/interop.md` lists every deliberate
difference.
"""
