// Package rewoundcontainer starts a server in a container for tests in Go, with testcontainers-go
// (docs/deploying.md). For envtest, `rewound envtest` starts faster (docs/envtest.md).
package rewoundcontainer

import (
	"context"
	"fmt"
	"io"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/wait"
)

const port = "6443/tcp"

// Container is a running server; Terminate ends it.
type Container struct {
	testcontainers.Container
}

// Start runs an image and returns when the server is ready.
func Start(ctx context.Context, image, kubernetes string) (*Container, error) {
	started, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        image,
			ExposedPorts: []string{port},
			Cmd: []string{"serve", "--data-dir=/data", "--bind-address=0.0.0.0", "--dialect=kubernetes",
				"--kubernetes-version=" + kubernetes},
			WaitingFor: wait.ForLog("is ready"),
		},
		Started: true,
	})
	if err != nil {
		return nil, err
	}
	return &Container{started}, nil
}

// Kubeconfig returns a kubeconfig file of a user, for clientcmd.RESTConfigFromKubeConfig.
func (c *Container) Kubeconfig(ctx context.Context, user, group string) ([]byte, error) {
	mapped, err := c.MappedPort(ctx, port)
	if err != nil {
		return nil, err
	}
	code, output, err := c.Exec(ctx, []string{"rewound", "kubeconfig", "user", user, "--group", group,
		"--data-dir", "/data", "--server", "https://127.0.0.1:" + mapped.Port(),
		"--certificate-authority", "/data/pki/ca.crt", "--output", "-"}, exec.Multiplexed())
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(output)
	if err == nil && code != 0 {
		err = fmt.Errorf("rewound kubeconfig: %s", text)
	}
	return text, err
}
