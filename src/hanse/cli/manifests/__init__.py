"""`hanse manifests`: an installation as plain manifests and as a Helm chart, from one source."""
