"""Drop-in adapters: modules with the names of other libraries, computed by jaxrank.

Each module keeps the names, argument order, defaults, return types and documented behaviour of the
original, and does not need the original to be installed. `docs/interop.md` lists every deliberate
difference.

`lightgbm` and `xgboost` are no copies of anything: they make objectives and metrics for boosted
trees, which `docs/boosting.md` describes.
"""
