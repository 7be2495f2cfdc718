mod manifests;
