"""Records a cluster without end into a bounded folder, and serves the recording while it grows (`rewound flight`)."""
