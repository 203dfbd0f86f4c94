"""Reports: what one or several browsers made of the same cases, as one JSON document and as one HTML page."""
