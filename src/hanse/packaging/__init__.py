"""What an installation is made of, as plain manifests and as a Helm chart, from one source."""
