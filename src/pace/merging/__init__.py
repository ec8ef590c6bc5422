"""Sections 4.1 to 4.3: carrier, moments, consensus, correction, and variants of them."""
