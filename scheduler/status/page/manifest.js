// The pods that manifests create, as requests for a dry run. The command line knows more kinds.
// js-yaml.mjs is js-yaml 5.5.0 (MIT) as published, without its source map. It is loaded when it is needed.

const GANG = "gangwright.io/gang";

/** Fields of a container that place no pod. A request may only be small. */
const UNREAD = ["command", "args", "env", "envFrom", "volumeMounts", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

const job = (spec) => [{ template: spec.template, count: Math.min(spec.parallelism ?? 1, spec.completions ?? Infinity) }];
const replicas = ({ spec }) => [{ template: spec.template, count: spec.replicas ?? 1 }];

/** Of each kind, its pod templates, and how many pods exist of each at once. */
const KINDS = {
  Pod: (thing) => [{ template: thing, count: 1 }],
  Job: (thing) => job(thing.spec),
  CronJob: (thing) => job(thing.spec.jobTemplate.spec),
  Deployment: replicas,
  ReplicaSet: replicas,
  StatefulSet: replicas,
  JobSet: (thing) => thing.spec.replicatedJobs.flatMap((own) => job(own.template.spec).map(({ template, count }) => (
    { template, count: count * (own.replicas ?? 1) }))),
};

/** Kubeflow's training jobs: a mapping from role to replicas and template. */
function roles({ spec }) {
  return Object.entries(spec).filter(([name]) => name.endsWith("ReplicaSpecs"))
    .flatMap(([, own]) => Object.values(own).map((role) => ({ template: role.template, count: role.replicas ?? 1 })));
}

/**
 * One request for each gang; without the label of a gang, for each object.
 * @returns {{requests: {name: string, count: number, body: Object}[], ignored: string[]}} ignored: objects without pods.
 * Raises Error with what is wrong.
 */
export async function trials(text, namespace) {
  const { loadAll } = await import("./js-yaml.mjs");
  const requests = new Map();
  const ignored = [];
  for (const thing of loadAll(text).filter((own) => own !== null).flatMap((own) => own?.items ?? [own])) {
    if (!thing?.kind) throw new Error("must contain only Kubernetes objects, with apiVersion and kind");
    const called = `${thing.kind}/${thing.metadata?.name ?? "?"}`;
    const inside = thing.metadata?.namespace || namespace || "default";
    for (const { template, count } of templatesOf(thing, called, ignored)) {
      const gang = template.metadata?.labels?.[GANG];
      const key = JSON.stringify([inside, gang ?? called]);
      if (!requests.has(key)) requests.set(key, { name: `${inside}/${gang ?? called}`, count: 0, body: { namespace: inside, pods: [] } });
      const own = requests.get(key);
      own.count += count;
      own.body.pods.push({ pod: podOf(template), count });
    }
  }
  return { requests: [...requests.values()], ignored };
}

function templatesOf(thing, called, ignored) {
  const isTraining = Object.keys(thing.spec ?? {}).some((name) => name.endsWith("ReplicaSpecs"));
  const rule = Object.hasOwn(KINDS, thing.kind) ? KINDS[thing.kind] : isTraining ? roles : null;
  if (!rule) {
    ignored.push(called);
    return [];
  }
  let found;
  try {
    found = rule(thing);
  } catch {
    found = [{}];
  }
  if (!found.every(({ template, count }) => template?.spec?.containers && Number.isInteger(count) && count >= 0)) {
    throw new Error(`${called}: its pods are unknown. It must have a valid spec of a ${thing.kind}.`);
  }
  return found.filter(({ count }) => count > 0);
}

function podOf({ metadata = {}, spec }) {
  const containers = (list) => list?.map((one) => Object.fromEntries(Object.entries(one).filter(([name]) => !UNREAD.includes(name))));
  const { labels, annotations } = metadata ?? {};
  return {
    metadata: { labels: labels ?? {}, annotations: annotations ?? {} },
    spec: { ...spec, containers: containers(spec.containers), initContainers: containers(spec.initContainers) },
  };
}
