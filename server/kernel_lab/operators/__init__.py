"""What an operator's folder is: its manifest, variants, cases, reference, and the dtypes they speak of."""
