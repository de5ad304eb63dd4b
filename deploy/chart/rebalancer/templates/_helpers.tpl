{{- /* The labels of every object. */ -}}
{{- define "rebalancer.labels" -}}
app.kubernetes.io/name: rebalancer
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The metadata of an object; the arguments are the root, a name, and optionally: namespace, labels, annotations. */ -}}
{{- define "rebalancer.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "rebalancer.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with mergeOverwrite (dict) .root.Values.annotations (default dict .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A ClusterRole or Role and its rules, which are those of the kustomize form. */ -}}
{{- define "rebalancer.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  {{- include "rebalancer.metadata" . | nindent 2 }}
rules:
  {{- .root.Files.Get (printf "files/rights/%s.yaml" .rules) | nindent 2 }}
{{- end }}

{{- /* What gives a role to the controller's account. */ -}}
{{- define "rebalancer.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}RoleBinding{{ else }}ClusterRoleBinding{{ end }}
metadata:
  {{- include "rebalancer.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: rebalancer
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "rebalancer.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The pod's security context: the Pod Security Standard restricted. */ -}}
{{- define "rebalancer.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "rebalancer.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "rebalancer.mode" -}}
{{- .Values.policy.mode | default "Observe" }}
{{- end }}

{{- define "rebalancer.scaleDown" -}}
{{- (.Values.policy.prevention | default dict).scaleDown | default "Off" }}
{{- end }}

{{- define "rebalancer.repairMethod" -}}
{{- (.Values.policy.repair | default dict).method | default "Evict" }}
{{- end }}

{{- define "rebalancer.capacityMode" -}}
{{- (.Values.policy.capacity | default dict).mode | default "Off" }}
{{- end }}

{{- define "rebalancer.capacityNamespace" -}}
{{- (.Values.policy.capacity | default dict).namespace | default "rebalancer-capacity" }}
{{- end }}

{{- /* The policy as the program reads it. */ -}}
{{- define "rebalancer.policy" -}}
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
{{ toYaml .Values.policy }}
{{- end }}
