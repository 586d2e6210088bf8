// Follows a collection with the informer of @kubernetes/client-node.
//
//     node informer.js <folder with node_modules> <kubeconfig> <path>
//
// An informer stops when a connection fails. As the client's examples do, the program then starts it again, and it
// resumes from its last resourceVersion. Every line of standard output is a JSON object: a connection with its
// protocol, or an event as it came from the server (the informer's own callbacks leave out repeated ones).
import { subscribe } from 'node:diagnostics_channel';
import { createRequire } from 'node:module';

const [folder, kubeconfig, path] = process.argv.slice(2);
const { CoreV1Api, KubeConfig, ListWatch, Watch } = createRequire(`${folder}/`)('@kubernetes/client-node');
const report = (line) => console.log(JSON.stringify(line));

class ReportingWatch extends Watch {
    watch(path, parameters, callback, done) {
        const reporting = (type, object, event) => {
            report({ Type: type, Name: object.metadata?.name, Text: object.data?.text });
            callback(type, object, event);
        };
        return super.watch(path, parameters, reporting, done);
    }
}

subscribe('undici:client:connected', ({ socket }) => report({ Proto: socket.alpnProtocol }));

const config = new KubeConfig();
config.loadFromFile(kubeconfig);
const api = config.makeApiClient(CoreV1Api);
const list = () => api.listNamespacedConfigMap({ namespace: 'default' });
const informer = new ListWatch(path, new ReportingWatch(config), list, false);
informer.on('error', () => setTimeout(() => informer.start(), 100));
await informer.start();
report({ Started: true });
