"""Nodes with containers: kubelet, containerd and kube-proxy in namespaces of their own."""
