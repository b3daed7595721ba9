{{- define "smartgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "smartgate.fullname" -}}
{{- $name := include "smartgate.name" . }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "smartgate.selector" -}}
app.kubernetes.io/name: {{ include "smartgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "smartgate.labels" -}}
{{ include "smartgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The pod's times of stopping follow server.drain, so the two must not differ. */}}
{{- define "smartgate.drain" -}}
{{- $line := printf "drain = \"%ds\"" (int .Values.drainSeconds) }}
{{- if not (contains $line .Values.config) }}{{ fail (printf "config needs the line `%s` under [server], because drainSeconds is %d" $line (int .Values.drainSeconds)) }}{{ end }}
{{- int .Values.drainSeconds }}
{{- end }}

{{/* The gateway's container, the same in both modes. */}}
{{- define "smartgate.container" -}}
name: smartgate
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - { name: SMARTGATE_LOG_FORMAT, value: json }
  - { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
  - { name: POD_NAMESPACE, valueFrom: { fieldRef: { fieldPath: metadata.namespace } } }
  - { name: OTEL_RESOURCE_ATTRIBUTES, value: "k8s.pod.name=$(POD_NAME),k8s.namespace.name=$(POD_NAMESPACE)" }
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - { name: mcp, containerPort: 8787 }
  - { name: admin, containerPort: 9787 }
startupProbe:
  httpGet: { path: /healthz, port: 9787 }
  periodSeconds: 1
  failureThreshold: 30
readinessProbe:
  httpGet: { path: /readyz, port: 9787 }
  periodSeconds: 5
livenessProbe:
  httpGet: { path: /healthz, port: 9787 }
  periodSeconds: 10
  failureThreshold: 3
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: { drop: [ALL] }
  seccompProfile: { type: RuntimeDefault }
volumeMounts:
  - { name: config, mountPath: /etc/smartgate, readOnly: true }
  {{- if .Values.keysSecret }}
  - { name: keys, mountPath: /etc/smartgate-keys, readOnly: true }
  {{- end }}
  - { name: state, mountPath: /var/lib/smartgate }
{{- end }}
