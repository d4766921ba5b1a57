"""scripts/launch/kubernetes holds what Kubernetes and Kubeflow take: every key is known, has the right type, and none that is needed is missing.

The schemas are the classes that the projects' own packages generate from their OpenAPI documents; they are read, not run.
"""
import ast
import pathlib
import re
import unittest

import yaml
from trainctl_process import ROOT, fetched

MANIFESTS = ROOT / "scripts/launch/kubernetes"
TRAINER = ROOT / ".deps/data/kubeflow_trainer/kubeflow_trainer_api/models"
TRAINING = ROOT / ".deps/data/kubeflow_training/kubeflow/training/models"
KINDS = {"Job": "IoK8sApiBatchV1Job", "Service": "IoK8sApiCoreV1Service", "TrainJob": "TrainerV1alpha1TrainJob", "PyTorchJob": "KubeflowOrgV1PyTorchJob"}
SCALARS = {"str": str, "StrictStr": str, "int": int, "StrictInt": int, "bool": bool, "StrictBool": bool, "object": object, "Any": object}


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Schemas:
    """Class name -> {key: (type as text, whether it is needed)}."""

    def __init__(self):
        self.classes = {}
        for path in TRAINER.glob("*.py"):
            self.read_pydantic(ast.parse(path.read_text()))
        for path in TRAINING.glob("kubeflow_org_v1_*.py"):
            self.read_openapi(ast.parse(path.read_text()))

    def read_pydantic(self, tree):
        for node in (n for n in tree.body if isinstance(n, ast.ClassDef)):
            fields = {}
            for field in (f for f in node.body if isinstance(f, ast.AnnAssign) and not f.target.id.startswith("__")):
                options = {k.arg: k.value for k in field.value.keywords} if isinstance(field.value, ast.Call) else {}
                alias = options["alias"].value if "alias" in options else field.target.id
                fields[alias] = (ast.unparse(field.annotation), "default" not in options and field.value is not None)
            self.classes[node.name] = None if "actual_instance" in fields else fields

    def read_openapi(self, tree):
        for node in (n for n in tree.body if isinstance(n, ast.ClassDef)):
            tables = {a.targets[0].id: ast.literal_eval(a.value) for a in node.body if isinstance(a, ast.Assign)}
            self.classes[node.name] = {tables["attribute_map"][name]: (self.rename(kind), False) for name, kind in tables["openapi_types"].items()}

    @staticmethod
    def rename(kind):
        """The older package's way to write a type, as the newer's."""
        kind = re.sub(r"dict\(str, (\w+)\)", r"Dict[str, \1]", re.sub(r"list\[(\w+)\]", r"List[\1]", kind))
        return kind.replace("V1PodTemplateSpec", "IoK8sApiCoreV1PodTemplateSpec").replace("V1ObjectMeta", "IoK8sApimachineryPkgApisMetaV1ObjectMeta")

    def problems(self, value, kind, where):
        kind = re.sub(r"^Optional\[(.*)\]$", r"\1", kind)
        if match := re.match(r"^List\[(.*)\]$", kind):
            if not isinstance(value, list):
                return [f"{where}: expected a list"]
            return [p for i, item in enumerate(value) for p in self.problems(item, match[1], f"{where}[{i}]")]
        if match := re.match(r"^Dict\[\w+, (.*)\]$", kind):
            if not isinstance(value, dict):
                return [f"{where}: expected a mapping"]
            return [p for key, item in value.items() for p in self.problems(item, match[1], f"{where}.{key}")]
        if kind in SCALARS:
            return [] if isinstance(value, SCALARS[kind]) and not (kind != "Any" and isinstance(value, bool) and SCALARS[kind] is int) else [
                f"{where}: expected {kind}, got {value!r}"]
        if kind not in self.classes:
            return [f"{where}: no schema for {kind}"]
        fields = self.classes[kind]
        if fields is None:  # a number or text
            return [] if isinstance(value, (int, float, str)) else [f"{where}: expected a number or text"]
        if not isinstance(value, dict):
            return [f"{where}: expected a mapping"]
        found = [f"{where}: unknown key {key}" for key in value if key not in fields]
        found += [f"{where}: {key} is missing" for key, (_, needed) in fields.items() if needed and key not in value]
        return found + [p for key, item in value.items() if key in fields for p in self.problems(item, fields[key][0], f"{where}.{key}")]


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not fetched("kubeflow_trainer", "kubeflow_training"):
            raise unittest.SkipTest("the packages with the schemas cannot be fetched")
        cls.schemas = Schemas()

    def documents(self):
        for path in sorted(MANIFESTS.glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                yield path.name, document

    def test_every_manifest_fits_its_schema(self):
        kinds = set()
        for name, document in self.documents():
            kinds.add(document["kind"])
            with self.subTest(manifest=name, kind=document["kind"]):
                self.assertEqual(self.schemas.problems(document, KINDS[document["kind"]], document["kind"]), [])
        self.assertEqual(kinds, set(KINDS))

    def test_mistakes_are_found(self):
        job = next(d for _, d in self.documents() if d["kind"] == "Job")
        job["spec"]["template"]["spec"]["containers"][0]["enf"] = []
        job["spec"]["completions"] = "2"
        del job["spec"]["template"]["spec"]["volumes"][0]["name"]
        found = "\n".join(self.schemas.problems(job, KINDS["Job"], "Job"))
        self.assertIn("unknown key enf", found)
        self.assertIn("Job.spec.completions: expected StrictInt", found)
        self.assertIn("volumes[0]: name is missing", found)

    def test_the_job_tells_each_pod_its_rank(self):
        service, job = (next(d for _, d in self.documents() if d["kind"] == kind) for kind in ("Service", "Job"))
        pod = job["spec"]["template"]["spec"]
        variables = {v["name"]: v for v in pod["containers"][0]["env"]}
        self.assertEqual(variables["WORLD_SIZE"]["value"], str(job["spec"]["completions"]))
        self.assertEqual(job["spec"]["completions"], job["spec"]["parallelism"])
        self.assertIn("job-completion-index", variables["RANK"]["valueFrom"]["fieldRef"]["fieldPath"])
        self.assertEqual(variables["MASTER_ADDR"]["value"], f"{job['metadata']['name']}-0.{service['metadata']['name']}")
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])


if __name__ == "__main__":
    unittest.main()
