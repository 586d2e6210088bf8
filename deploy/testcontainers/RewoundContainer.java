import java.io.IOException;
import org.testcontainers.containers.Container.ExecResult;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/** A server in a container for tests in Java, with Testcontainers (docs/deploying.md). */
public class RewoundContainer extends GenericContainer<RewoundContainer> {
    private static final int PORT = 6443;

    public RewoundContainer(String image, String kubernetes) {
        super(DockerImageName.parse(image));
        withExposedPorts(PORT);
        withCommand("serve", "--data-dir=/data", "--bind-address=0.0.0.0", "--dialect=kubernetes",
                "--kubernetes-version=" + kubernetes);
        waitingFor(Wait.forLogMessage(".*is ready.*\\n", 1));
    }

    public String url() {
        return "https://127.0.0.1:" + getMappedPort(PORT);
    }

    /** The text of a kubeconfig file of this user, for example for Config.fromKubeconfig of fabric8. */
    public String kubeconfig(String user, String group) throws IOException, InterruptedException {
        ExecResult run = execInContainer("rewound", "kubeconfig", "user", user, "--group", group,
                "--data-dir", "/data", "--server", url(), "--certificate-authority", "/data/pki/ca.crt",
                "--output", "-");
        if (run.getExitCode() != 0) {
            throw new IllegalStateException(run.getStderr());
        }
        return run.getStdout();
    }
}
