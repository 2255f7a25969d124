{{- define "portico.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "portico.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "portico.labels" -}}
{{ include "portico.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "portico.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "portico.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* Not empty if the replicas share a database. */}}
{{- define "portico.shared" -}}
{{- if or .Values.database.url .Values.database.existingSecret }}yes{{ end }}
{{- end }}

{{/* Not empty if there may be more than one replica. */}}
{{- define "portico.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) }}yes{{ end }}
{{- end }}

{{- define "portico.check" -}}
{{- if and (include "portico.several" .) (not (include "portico.shared" .)) }}
{{- fail "More than one replica needs a database: set database.url or database.existingSecret." }}
{{- end }}
{{- if and (include "portico.shared" .) (not (or .Values.secretKey.value .Values.secretKey.existingSecret)) }}
{{- fail "With a database all replicas need the same key: set secretKey.value or secretKey.existingSecret." }}
{{- end }}
{{- if not (or .Values.tls.secretName .Values.behindProxy) }}
{{- fail "Passwords must not cross the network in clear text: set behindProxy to the addresses of your Ingress controller, or tls.secretName." }}
{{- end }}
{{- end }}

{{- define "portico.pod" -}}
metadata:
  labels:
    {{- include "portico.labels" . | nindent 4 }}
  annotations:
    checksum/secret: {{ include (print $.Template.BasePath "/secret.yaml") . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "portico.serviceAccount" . }}
  automountServiceAccountToken: false
  # Its variables would look like settings of Portico.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add .Values.drainDelaySeconds .Values.stopTimeoutSeconds 10 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: portico
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: ["ALL"]
      ports:
        - name: http
          containerPort: 8080
        {{- if .Values.metrics.enabled }}
        - name: metrics
          containerPort: 9464
        {{- end }}
      env:
        {{- if include "portico.shared" . }}
        - name: PORTICO_DATABASE_URL_FILE
          value: /run/secrets/portico/database-url
        {{- end }}
        {{- if or .Values.secretKey.value .Values.secretKey.existingSecret }}
        - name: PORTICO_SECRET_KEY_FILE
          value: /run/secrets/portico/secret-key
        {{- end }}
        {{- if .Values.tls.secretName }}
        - name: PORTICO_SERVER_TLS
          value: /run/secrets/tls/tls.crt,/run/secrets/tls/tls.key
        {{- else }}
        - name: PORTICO_SERVER_BEHIND_PROXY
          value: {{ .Values.behindProxy | quote }}
        {{- end }}
        {{- with .Values.publicUrl }}
        - name: PORTICO_SERVER_PUBLIC_URL
          value: {{ . | quote }}
        {{- end }}
        - name: PORTICO_HEALTH_ALLOWED_ADDRESSES
          value: {{ .Values.healthAllowedAddresses | quote }}
        - name: PORTICO_SERVER_DRAIN_DELAY
          value: "{{ .Values.drainDelaySeconds }}s"
        - name: PORTICO_SERVER_STOP_TIMEOUT
          value: "{{ .Values.stopTimeoutSeconds }}s"
        {{- if .Values.metrics.enabled }}
        - name: PORTICO_METRICS_ADDRESS
          value: "0.0.0.0:9464"
        {{- end }}
        {{- if .Values.caBundle.configMapName }}
        - name: SSL_CERT_FILE
          value: /run/secrets/ca/ca.crt
        - name: AWS_CA_BUNDLE
          value: /run/secrets/ca/ca.crt
        - name: PGSSLROOTCERT
          value: /run/secrets/ca/ca.crt
        {{- end }}
        {{- range $key, $value := .Values.settings }}
        - name: PORTICO_{{ $key | upper | replace "." "_" | replace "-" "_" }}
          value: {{ $value | toString | quote }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      # Migrations of a large database take a while.
      startupProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ ternary "HTTPS" "HTTP" (ne .Values.tls.secretName "") }}}
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ ternary "HTTPS" "HTTP" (ne .Values.tls.secretName "") }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http, scheme: {{ ternary "HTTPS" "HTTP" (ne .Values.tls.secretName "") }}}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 2
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - name: home
          mountPath: /var/lib/portico
        - name: tmp
          mountPath: /tmp
        {{- if or (include "portico.shared" .) .Values.secretKey.value .Values.secretKey.existingSecret }}
        - name: secrets
          mountPath: /run/secrets/portico
          readOnly: true
        {{- end }}
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /run/secrets/tls
          readOnly: true
        {{- end }}
        {{- if .Values.caBundle.configMapName }}
        - name: ca
          mountPath: /run/secrets/ca
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {medium: Memory, sizeLimit: 16Mi}
    {{- if include "portico.shared" . }}
    - name: home
      emptyDir: {sizeLimit: 1Gi}
    {{- end }}
    {{- if or (include "portico.shared" .) .Values.secretKey.value .Values.secretKey.existingSecret }}
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- if include "portico.shared" . }}
          - secret:
              name: {{ .Values.database.existingSecret | default (include "portico.name" .) }}
              items: [{key: database-url, path: database-url}]
          {{- end }}
          {{- if or .Values.secretKey.value .Values.secretKey.existingSecret }}
          - secret:
              name: {{ .Values.secretKey.existingSecret | default (include "portico.name" .) }}
              items: [{key: secret-key, path: secret-key}]
          {{- end }}
    {{- end }}
    {{- if .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.secretName }}
        defaultMode: 0440
    {{- end }}
    {{- if .Values.caBundle.configMapName }}
    - name: ca
      configMap:
        name: {{ .Values.caBundle.configMapName }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if include "portico.several" . }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "portico.selector" . | nindent 10 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
