"""Internals: may import `gains` and `discounts`, and nothing else from outside."""
