"""A package that only the checkout has."""
