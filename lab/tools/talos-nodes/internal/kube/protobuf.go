package kube

import (
	"bytes"
	"encoding/json"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// Clients of Kubernetes in Go send built-in kinds as protobuf, which begins with this.
var protobufMark = []byte("k8s\x00")

var decoder = func() *protobuf.Serializer {
	scheme := runtime.NewScheme()

	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // it is compiled in
		}
	}

	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})

	return protobuf.NewSerializer(scheme, scheme)
}()

// plain returns a body as JSON.
func plain(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, protobufMark) {
		return body, nil
	}

	object, _, err := decoder.Decode(body, nil, nil)
	if err != nil {
		return nil, fail(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "the fake Kubernetes API cannot read the body: %v", err)
	}

	return json.Marshal(object)
}
