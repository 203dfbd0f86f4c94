"""Mutation: small faults put into kernels that are right, to learn whether an operator's cases would notice them."""
